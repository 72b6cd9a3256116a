# SPDX-License-Identifier: Apache-2.0
# Every target makes the virtual environment it needs; pyproject.toml says what belongs in it.

PYTHON ?= python3
BIN := .venv/bin
# One of them has Spark; the others wait for disks and children more than they compute.
TEST_PROCESSES ?= 4
PYTEST := $(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder
# Inputs in all that `make torture` gives to what reads strangers' bytes.
FUZZ_RUNS ?= 10000000
# Each run of the workbench has a folder of its own.
RUN := bench-runs/$(shell date -u +%Y%m%dT%H%M%S)
# Spark runs on the machine's Java; where that is missing or older than 17, on one that is installed here.
JAVA := $(shell java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' || echo ,java)

# Hundreds of processes start in a run of the tests: let the first keep what it compiled, wherever that was switched off.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test check fix bench parts torture mutants

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/made-run ## show the main job: orders through flows on Spark, three SIGKILLs, each order exactly once
	@$(BIN)/python examples/demo

test: .venv/made-test ## run all tests but the long campaigns, in a few minutes
	@$(PYTEST) -m "not torture" --timeout 400

check: .venv/made-check ## lint, formatting, types and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@PYTHONPATH=tools $(BIN)/python -m blocking --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: .venv/made-check ## mend what lint and formatting can mend themselves
	@PYTHONPATH=tools $(BIN)/python -m blocking
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/made-bench ## measure Entrepot and other brokers, and write what was found to report/; half an hour
	@$(BIN)/entrepot bench peers install || echo "bench: going on without what is not installed" >&2
	@$(BIN)/entrepot bench run representative --system all --scale quick -o $(RUN)
	@$(BIN)/entrepot report $(RUN) -o report

parts: .venv/made-bench ## measure parts of Entrepot by themselves; a table here and JSON in bench/results
	@$(BIN)/python bench/run.py

torture: .venv/made-test .venv/made-fuzz ## the long campaigns: every crash point, many seeds, ten million fuzzed inputs
	@$(PYTEST) -m torture
	@PYTHONPATH=tests $(BIN)/python -m fuzz --runs $(FUZZ_RUNS)

mutants: .venv/made-test ## plant 400 bugs one at a time, and list those that the nearest tests do not notice; an hour or two
	@PYTHONPATH=tools $(BIN)/python -m mutants

# A stamp for each set of extras, older than pyproject.toml when something has to be installed.
.venv/made-run: EXTRAS := [spark,sql$(JAVA)]
.venv/made-test: EXTRAS := [test$(JAVA)]
.venv/made-check: EXTRAS := [check,test$(JAVA)]
.venv/made-bench: EXTRAS := [bench$(JAVA)]
.venv/made-fuzz: EXTRAS := [fuzz,test$(JAVA)]

.venv/made-%: pyproject.toml | .venv/bin/python
	@echo "installing .$(EXTRAS) into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".$(EXTRAS)"
	@touch $@

.venv/made-test .venv/made-check: .venv/made-packages

.venv/made-packages: tests/packages_install | .venv/bin/python
	@tests/packages_install
	@touch $@

.venv/bin/python:
	@$(PYTHON) -m venv .venv
