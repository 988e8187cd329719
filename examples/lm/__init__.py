"""A small language model made of generated layers: `python -m examples.lm.train --help`."""
