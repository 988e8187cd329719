"""The command line of lm_eval for models of energies: `python -m examples.hf.harness --model hf --model_args
pretrained=DIR --tasks NAME`, or whatever else `lm_eval` takes.

lm_eval itself would not know their type, which is registered where `examples.hf` is imported.
"""

from __future__ import annotations

import importlib

from lm_eval.__main__ import cli_evaluate

if __name__ == "__main__":
    importlib.import_module("examples.hf")
    cli_evaluate()
