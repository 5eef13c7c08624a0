# Everything below runs in .venv, which the first target that needs it makes. Needs Python >= 3.11 with venv, and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types contracts bench docs min all-versions clean

help:
	@echo "make demo    the same bad day twice, with stock Scrapy and with this package (less than a minute; KEEP=DIR keeps logs and letters)"
	@echo "make test    the tests"
	@echo "make check   style, types, import contracts, names in the docs"
	@echo "make bench   speed, memory and requests per URL against stock Scrapy and scrapy-rotating-proxies"
	@echo "make docs    the documentation, in docs/_build/html"

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "scrapy_resiproxy needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) with the package and what its tests and documentation need: once, a minute or two ..."
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[lab]" --group dev
	@touch $@

demo: $(VENV)/.ready
	@$(BIN)/python -m scrapy_resiproxy.lab.demo $(if $(KEEP),--keep "$(KEEP)")

test: $(VENV)/.ready
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n $(JOBS) --dist loadfile
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=$(COVERAGE)

# The share of branches that the tests run; it may only go up.
COVERAGE ?= 97

check: lint types contracts

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

contracts: $(VENV)/.ready
	$(BIN)/lint-imports

# The lowest Scrapy that is promised, in an environment of its own.
min: $(VENV)/.ready
	$(BIN)/nox -s lowest

bench: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	@$(BIN)/python benchmarks/run.py

docs: $(VENV)/.ready
	$(BIN)/sphinx-build -W -n -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .nox docs/_build .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
