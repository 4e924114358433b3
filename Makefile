# The same words on a desk and in CI: run, test, check, figures, docs, bench.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Stamps lie inside the environment, so that deleting it forgets what was installed.
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# Where the README's figure gets its rows from.
SHOWCASE := experiments/default

.DEFAULT_GOAL := help
.PHONY: help run test check figures docs bench crashtest loadtest streamtest fuzztest

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(INSTALLED) ## compare our ranker and the paper's on built-in data; a table, and figures in results/
	@$(BIN)/olrank run

test: check ## lint, types, import layers, then every test
	@$(BIN)/python -m pytest

check: $(INSTALLED_DEV) ## lint, types and import layers only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

figures: $(INSTALLED) ## redraw every committed figure from its rows
	@for figures in experiments/*/figures; do \
	  if [ -e "$$figures/../rows.parquet" ]; then $(BIN)/olrank figures "$$(dirname "$$figures")"; fi; \
	done
	@if [ -e $(SHOWCASE)/figures/learning.svg ]; then \
	  mkdir -p docs/figures && cp $(SHOWCASE)/figures/learning.svg docs/figures/learning.svg; \
	else \
	  echo "No rows in $(SHOWCASE): run '$(BIN)/olrank run --out $(SHOWCASE)' first."; exit 1; \
	fi

docs: $(INSTALLED) ## write a page for each experiment, every number taken from its rows
	@$(BIN)/olrank pages

bench: $(INSTALLED_DEV) ## measure speed; each benchmark prints a ratio against a named baseline
	@for bench in letor comparison rounds page; do $(BIN)/python benchmarks/$$bench.py || exit 1; done

# Takes about an hour; FOLDER must not exist yet. The figures are committed.
FOLDER ?= results/crashtest
crashtest: $(INSTALLED_DEV) ## kill the service 1,000 times and flip 10,000 bits; nothing may be lost
	@PYTHONPATH=src:tests $(BIN)/python tests/service/crashtest.py $(FOLDER)/kills --report docs/crashtest.json
	@PYTHONPATH=src:tests $(BIN)/python tests/service/damage.py $(FOLDER)/damage --report docs/damage.json

# Goes on where no rate holds its aims: recovery and the page are wanted all the same.
loadtest: $(INSTALLED_DEV) ## find the rate that the service holds and hold it for ten minutes; time recovery
	-@$(BIN)/python benchmarks/service/load.py --report docs/loadtest.json
	@$(BIN)/python benchmarks/service/recovery.py --report docs/recovery.json
	@$(BIN)/python benchmarks/page.py

streamtest: $(INSTALLED_DEV) ## 100,000 rough events through the service, beside a simple model
	@PYTHONPATH=src:tests $(BIN)/python tests/service/stream.py $(FOLDER)/stream

fuzztest: $(INSTALLED_DEV) ## 10,000 requests made up from the OpenAPI document
	@OLRANK_FUZZ_CASES=10000 $(BIN)/python -m pytest -q -s tests/service/test_fuzz.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "olrank needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name a newer one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing olrank into $(VENV)"
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing olrank and what its tests need into $(VENV)"
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(INSTALLED)
