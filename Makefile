.DEFAULT_GOAL := help
.PHONY: help install run test check docs bench clean

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

run: $(STAMP)  ## The WikiText job on a local Ray, on embedded data (no download, about two minutes)
	$(BIN)/heterofl-ray submit jobs/wikitext_dynamic.py -- --smoke

test: $(STAMP)  ## Every test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(STAMP)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)  ## The reference pages, from the code
	$(BIN)/python -m heterofl_ray.reference

bench: $(STAMP)  ## The speed suite, as ratios
	$(BIN)/heterofl-ray bench

clean:  ## Remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
