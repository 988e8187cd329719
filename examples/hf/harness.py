"""The command line of lm_eval for models of energies: `python -m examples.hf.harness --model hf --model_args
pretrained=DIR --tasks NAME`, or whatever else `lm_eval` takes.

lm_eval itself would not know their type, which is registered where `examples.hf` is imported.
"""

from __future__ import annotations

from lm_eval.__main__ import cli_evaluate

import examples.hf  # noqa: F401  # for what it registers

if __name__ == "__main__":
    cli_evaluate()
