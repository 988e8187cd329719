"""Language models of energies for Hugging Face transformers.

Importing this package makes `AutoConfig`, `AutoModelForCausalLM` and with them pipelines and evaluation harnesses know
models of type "cem".
"""

from transformers import AutoConfig, AutoModelForCausalLM

from examples.hf.configuration import CemConfig
from examples.hf.modeling import CemCache, CemForCausalLM
from examples.hf.training import CemTrainer

AutoConfig.register("cem", CemConfig, exist_ok=True)
AutoModelForCausalLM.register(CemConfig, CemForCausalLM, exist_ok=True)

__all__ = ["CemCache", "CemConfig", "CemForCausalLM", "CemTrainer"]
