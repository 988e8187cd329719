# Everything here works from a fresh clone: each target first makes the virtual environment it needs, once.
#
#   make demo    compile the two energies, check them, train a small language model made of them
#   make test    ruff, mypy, pytest
#   make lint    the first two
#   make kernels      compile the kernels of the gallery for four GPUs, none of which is needed; writes docs/kernels.md
#   make kernels-3.9  the tests of the kernels with Triton 3.9
#   make clean   remove the run and the caches; `make distclean` also the virtual environments

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Threads that wait give way, so that a busy core does not slow everything down tenfold (see examples/__init__.py).
OMP_WAIT_POLICY ?= PASSIVE
export OMP_WAIT_POLICY

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
ENERGIES := examples/energies/cem_attention.cem examples/energies/cem_mlp.cem
DEMO := runs/demo

# The same packages, with the newest Triton that is supported over the one that torch asks for.
NEWEST := .venv-triton-3.9
SITE := import sysconfig; print(sysconfig.get_path("purelib"))

.PHONY: demo test lint kernels kernels-3.9 clean distclean

demo: $(VENV)/installed
	$(PY) -m cemc compile $(ENERGIES) -o generated
	$(PY) -m cemc check $(ENERGIES)
	$(PY) -m examples.lm.train --config examples/lm/configs/tiny.toml --out $(DEMO) --resume

test: lint
	$(PY) -m pytest

lint: $(VENV)/installed
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

kernels: $(VENV)/installed
	$(PY) -m benchmarks.kernels

kernels-3.9: $(NEWEST)/installed
	$(NEWEST)/bin/python -m pytest tests/kernels

$(NEWEST)/installed: $(VENV)/installed
	$(PYTHON) -m venv $(NEWEST)
	echo "import site; site.addsitedir('$$(realpath "$$($(PY) -c '$(SITE)')")')" > "$$($(NEWEST)/bin/python -c '$(SITE)')/base.pth"
	$(NEWEST)/bin/python -m pip install --quiet --no-deps triton==3.9.0
	@touch $@

# The stamp is written last, so that an interrupted installation is taken up again. The build back ends come first: the
# package itself, and what the evaluation harness needs as source, are built with the pinned ones, without a second download.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cemc needs Python 3.11 or newer; say which with make PYTHON=...")'
	@echo "Installing into $(VENV), once; the downloads take a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt hatchling setuptools
	$(PY) -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[eval,tensorboard,dev]'
	@touch $@

clean:
	rm -rf runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(NEWEST)
