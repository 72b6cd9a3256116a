# SPDX-License-Identifier: Apache-2.0
# Every target makes the virtual environment it needs; pyproject.toml says what belongs in it.

PYTHON ?= python3
# Another interpreter has an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
VENV ?= .venv
BIN := $(VENV)/bin
# Of what the compiled modules are made; in the environment stand those that were made of it.
COMPILED := $(wildcard src/entrepot/compiled/*.pyx src/entrepot/compiled/*.pxd)
# One of them has Spark; the others wait for disks and children more than they compute.
TEST_PROCESSES ?= 4
PYTEST := $(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder
# Inputs in all that `make torture` gives to what reads strangers' bytes.
FUZZ_RUNS ?= 10000000
# Frames that it gives to the compiled parser, under AddressSanitizer.
FUZZ_FRAMES ?= 10000000
# Damaged XML documents that it gives to the tape, under AddressSanitizer.
FUZZ_DOCUMENTS ?= 200000
# Each run of the workbench has a folder of its own.
RUN := bench-runs/$(shell date -u +%Y%m%dT%H%M%S)
# Spark runs on the machine's Java; where that is missing or older than 17, on one that is installed here.
JAVA := $(shell java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' || echo ,java)

# Hundreds of processes start in a run of the tests: let the first keep what it compiled, wherever that was switched off.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test check fix bench parts torture mutants package

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/made-run ## show the main job: orders through flows on Spark, three SIGKILLs, each order exactly once
	@$(BIN)/python examples/demo

test: $(VENV)/made-test ## run all tests but the long campaigns, in a few minutes
	@$(PYTEST) -m "not torture" --timeout 400

check: $(VENV)/made-test ## lint, formatting, types and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@PYTHONPATH=tools $(BIN)/python -m blocking --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: $(VENV)/made-test ## mend what lint and formatting can mend themselves
	@PYTHONPATH=tools $(BIN)/python -m blocking
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/made-bench ## measure Entrepot and other brokers, and write what was found to report/; half an hour
	@$(BIN)/entrepot bench peers install || echo "bench: going on without what is not installed" >&2
	@$(BIN)/entrepot bench run representative --system all --scale quick -o $(RUN)
	@$(BIN)/entrepot report $(RUN) -o report

parts: $(VENV)/made-bench ## measure parts of Entrepot by themselves; a table here and JSON in bench/results
	@$(BIN)/python bench/run.py

torture: $(VENV)/made-test $(VENV)/made-fuzz ## the long campaigns: every crash point, many seeds, all tests in pure Python, ten million fuzzed inputs and frames
	@$(PYTEST) -m torture
	@ENTREPOT_PURE=1 $(PYTEST) -m "not torture" --timeout 400
	@PYTHONPATH=tests $(BIN)/python -m fuzz --runs $(FUZZ_RUNS)
	@PYTHONPATH=tests $(BIN)/python -m fuzz.frames --runs $(FUZZ_FRAMES) --sanitized
	@PYTHONPATH=tests $(BIN)/python -m fuzz.documents --runs $(FUZZ_DOCUMENTS) --sanitized

mutants: $(VENV)/made-test ## plant 400 bugs one at a time, and list those that the nearest tests do not notice; an hour or two
	@PYTHONPATH=tools $(BIN)/python -m mutants

package: ## build sdist and wheels from a clean clone, install them with each extra, run examples and tests; half an hour
	@PYTHONPATH=tools $(PYTHON) -m package

# A stamp for each set of extras, older than pyproject.toml or a source when something has to be installed or compiled.
$(VENV)/made-run: EXTRAS := [spark,sql$(JAVA)]
$(VENV)/made-test: EXTRAS := [check,test$(JAVA)]
$(VENV)/made-bench: EXTRAS := [bench$(JAVA)]
$(VENV)/made-fuzz: EXTRAS := [fuzz,test$(JAVA)]

$(VENV)/made-%: pyproject.toml $(VENV)/made-sources | $(VENV)/bin/python
	@echo "installing .$(EXTRAS) into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".$(EXTRAS)"
	@touch $@

# What cannot be compiled any more must not stay as it was: its twin in Python serves then.
$(VENV)/made-sources: $(COMPILED) | $(VENV)/bin/python
	@rm -f src/entrepot/compiled/*$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
	@touch $@

$(VENV)/made-test: $(VENV)/made-packages

$(VENV)/made-packages: tests/packages_install | $(VENV)/bin/python
	@tests/packages_install
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)
