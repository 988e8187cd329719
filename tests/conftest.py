"""Triton interprets kernels, on the CPU, in all tests: how it runs them is settled when it is imported. What is
compiled for a GPU is tested in processes of their own."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
