.DEFAULT_GOAL := help
.PHONY: help install run test check docs bench soak fuzz audit clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

help:  ## What can be made here
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP)  ## Set up .venv with the locked versions

run: $(STAMP)  ## The WikiText job on a local Ray, on embedded data (no download, about two minutes)
	$(BIN)/heterofl-ray submit jobs/wikitext_dynamic.py -- --smoke

# Bytecode is written, whatever the environment says: hundreds of processes would compile the package
# anew, and each of the three the tests, which takes ten seconds.
test: $(STAMP)  ## Every test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadgroup

check: $(STAMP)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)  ## The reference pages, from the code
	$(BIN)/python -m heterofl_ray.reference

bench: $(STAMP)  ## The speed suite, as ratios
	$(BIN)/heterofl-ray bench

soak: $(STAMP)  ## Half an hour of runs on a cluster under faults, then fuzz (MINUTES=30 SEED=0 FAULTS=worker,node,…)
	$(BIN)/python -m benchmarks soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0) \
		$(if $(FAULTS),--faults $(FAULTS)) --record
	$(MAKE) fuzz

fuzz: $(STAMP)  ## 100,000 inputs for the readers of settings, checkpoints and data (INPUTS=100000)
	$(BIN)/python -W ignore -m tests.fuzz --inputs $(or $(INPUTS),100000)

audit: $(STAMP)  ## Known vulnerabilities in the locked versions (asks PyPI; docs/security.md)
	$(BIN)/pip-audit --requirement requirements.lock --no-deps --disable-pip --strict

clean:  ## Remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
