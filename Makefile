# Everything runs from .venv, which `make setup` builds and keeps in step with the pinned
# requirements. Paths stay relative, so that the folder's own name may contain spaces.

PYTHON ?= python3
ARGS ?=
LEVEL ?= ci
# Twice the cores of a small machine: many tests wait for processes of their own.
WORKERS ?= 4

export PYTHON
# Else each of the thousands of processes that tests and benchmarks start would compile the program.
unexport PYTHONDONTWRITEBYTECODE
venv := .venv/bin
py := $(venv)/python

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types layers cover unit bench crash pictures lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## Build .venv from the pinned requirements; does nothing if it is up to date
	@sh scripts/setup

demo: setup ## Strike the agent on purpose and see what is left; ARGS="--scenario tool" picks one
	@$(py) -m holdfast drill $(ARGS)

test: lint types layers cover crash ## Run every check

lint: setup ## Check the style and the format
	$(py) -m ruff check .
	$(py) -m ruff format --check .

types: setup ## Check the types
	$(py) -m mypy

layers: setup ## Check that each layer imports only those below it
	$(venv)/lint-imports

cover: setup ## Run all tests and hold the coverage
	$(py) -m coverage erase
	COVERAGE_PROCESS_START=pyproject.toml $(py) -m pytest -n $(WORKERS) --dist worksteal
	$(py) -m coverage combine --quiet
	$(py) -m coverage report

unit: setup ## Run tests without coverage; ARGS="tests/journal -k torn" picks some
	$(py) -m pytest $(ARGS)

crash: setup ## Prove durability; LEVEL=nightly takes hours, ARGS="--layer B" picks some
	$(py) -m tests.crash --level $(LEVEL) $(ARGS)

bench: setup ## Run the benchmarks; ARGS are theirs
	$(py) -m benchmarks $(ARGS)

pictures: setup ## Draw the pictures of the screens anew; wants tmux, ARGS=chat picks one
	$(py) -m scripts.pictures $(ARGS)

lock: ## Write requirements/dev.txt anew; ARGS=--upgrade moves every pin
	@sh scripts/lock $(ARGS)

clean: ## Remove caches and build products; keeps .venv
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . \( -name .venv -o -name .git \) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
