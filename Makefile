# make demo    grade the bundled NumPy Transformer, from nothing: what a newcomer runs first
# make test    all tests, from nothing
# make lint    style and types
# make selftest  every mistake of the pack graded as an implementation: five to fifteen minutes
#
# Each makes its own virtual environment afresh, so neither an activated one nor a stale one can change the result.
# Needs Python 3.11 or newer, pip, make and git.
#
#   PYTHON=python3.12   another interpreter
#   ARGS='-k rope'      further arguments, for the run of demo or the pytest of test
#   JOBS=4              processes of make test (default: one a core)

PYTHON ?= python3
VENVS ?= .venvs
JOBS ?= auto
ARGS ?=
REPORT := demo-report

# What an activated or a customised environment would slip in.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONSAFEPATH PYTHONWARNINGS
unexport VIRTUAL_ENV CONDA_PREFIX __PYVENV_LAUNCHER__
unexport PIP_TARGET PIP_PREFIX PIP_USER PIP_PYTHON PIP_REQUIRE_VIRTUALENV
unexport PYTEST_ADDOPTS PYTEST_PLUGINS MYPYPATH

.PHONY: help demo test lint selftest format clean python

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

# One line each, instead of the traceback or the shell's shrug that would come later.
python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no '$(PYTHON)' here. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "'$(PYTHON)' is older than Python 3.11 (or does not start). Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# $(call environment,NAME,WHAT): a new environment with WHAT installed. One that did not get that far is taken away.
environment = rm -rf "$(VENVS)/$(1)" && \
  echo "== a new virtual environment in $(VENVS)/$(1): pip install $(2) (a minute or more)" && \
  { "$(PYTHON)" -m venv "$(VENVS)/$(1)" && "$(VENVS)/$(1)/bin/python" -m pip install --quiet $(2); } || \
  { status=$$?; rm -rf "$(VENVS)/$(1)"; echo "The environment could not be made; what went wrong stands above." >&2; exit $$status; }

demo: python ## grade the bundled NumPy Transformer in a new environment
	@$(call environment,demo,.)
	@echo "== conformance run adapters/numpy_reference.py"
	@rm -rf $(REPORT)
	@"$(VENVS)/demo/bin/conformance" run adapters/numpy_reference.py -o $(REPORT) $(ARGS); status=$$?; \
	  for file in report.html results.jsonl; do \
	    if [ -e "$(REPORT)/$$file" ]; then echo "The report: $(CURDIR)/$(REPORT)/$$file"; break; fi; \
	  done; exit $$status

# Editable, so that a later `.venvs/test/bin/pytest` tests what is being edited; tests/test_wheel.py tests the wheel.
test: python ## run all tests in a new environment, PyTorch and transformers included
	@$(call environment,test,--editable '.[test]')
	@echo "== pytest"
	@"$(VENVS)/test/bin/pytest" --numprocesses $(JOBS) --dist loadgroup $(ARGS)

lint: python ## check style and types in a new environment
	@$(call environment,lint,--editable '.[lint]')
	@echo "== ruff check" && "$(VENVS)/lint/bin/ruff" check .
	@echo "== ruff format --check" && "$(VENVS)/lint/bin/ruff" format --check .
	@echo "== mypy --strict" && "$(VENVS)/lint/bin/mypy" --strict
	@echo "== mypy --strict, for the oldest Python it knows: the worker" && \
	  "$(VENVS)/lint/bin/mypy" --strict --python-version 3.10 conformance/worker

selftest: python ## grade every mistake of the pack in a new environment
	@$(call environment,selftest,.)
	@echo "== conformance selftest" && "$(VENVS)/selftest/bin/conformance" selftest $(ARGS)

format: ## bring the code into form, with the environment of make lint
	@"$(VENVS)/lint/bin/ruff" check --fix .
	@"$(VENVS)/lint/bin/ruff" format .

clean: ## take away what these commands made
	rm -rf "$(VENVS)" $(REPORT) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
