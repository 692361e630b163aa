.DEFAULT_GOAL := help
.PHONY: help install run test check bench clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

help:  ## What can be made here
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

install: $(STAMP)  ## Set up .venv with the locked versions

run: $(STAMP)  ## Train the digits example (no download, about half a minute)
	$(BIN)/heterofl-ray run digits-dynamic

test: $(STAMP)  ## Every test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(STAMP)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## The speed suite, as ratios
	$(BIN)/python -m benchmarks

clean:  ## Remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
