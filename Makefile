# Everything runs from .venv, which scripts/setup builds from the pinned requirements and updates
# when they change. Paths stay relative, so that the folder's own name may contain spaces.

PYTHON ?= python3
ARGS ?=
LEVEL ?= ci
# Twice the cores of a small machine: many tests wait for processes of their own.
WORKERS ?= 4
SLOW := cli crash defects drill exchange keeper runtime tui
# Every line and branch of files, model, journal and store is reached by the tests of these rooms.
MEASURED := contract journal model store

export PYTHON
# Else each of the thousands of processes that tests and benchmarks start would compile the program.
unexport PYTHONDONTWRITEBYTECODE
venv := .venv/bin
py := $(venv)/python

.DEFAULT_GOAL := help
.PHONY: help setup demo check test lint types layers quick cover rest unit bench crash pictures lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## Build .venv with everything the checks need; does nothing if it is up to date
	@sh scripts/setup dev

demo: ## Crash the agent on purpose and see that nothing is lost; ARGS="--scenario tool" picks one
	@sh scripts/setup run
	@$(py) -m holdfast drill $(ARGS)
	@sh scripts/next_steps >&2

check: lint types layers quick ## Run the fast checks: style, types, layers and quick tests

test: lint types layers cover rest crash ## Run every check, the slow ones too

lint: setup ## Check the style and the format
	$(py) -m ruff check .
	$(py) -m ruff format --check .

types: setup ## Check the types
	$(py) -m mypy

layers: setup ## Check that each layer imports only those below it
	$(venv)/lint-imports

# Without the folders whose tests take long: they start the program, simulate crashes, or fuzz.
quick: setup ## Run the tests that are fast; part of make check
	$(py) -m pytest -n $(WORKERS) --dist worksteal $(addprefix --ignore=tests/,$(SLOW)) $(ARGS)

cover: setup ## Run the tests of the store and hold the coverage
	$(py) -m coverage erase
	COVERAGE_PROCESS_START=pyproject.toml $(py) -m pytest -n $(WORKERS) --dist worksteal $(addprefix tests/,$(MEASURED)) tests/test_*.py
	$(py) -m coverage combine --quiet
	$(py) -m coverage report

rest: setup ## Run all other tests
	$(py) -m pytest -n $(WORKERS) --dist worksteal $(addprefix --ignore=tests/,$(MEASURED)) $(patsubst %,--ignore=%,$(wildcard tests/test_*.py))

unit: setup ## Run tests without coverage; ARGS="tests/journal -k torn" picks some
	$(py) -m pytest $(ARGS)

crash: setup ## Prove durability; LEVEL=nightly takes hours, ARGS="--layer B" picks some
	$(py) -m tests.crash --level $(LEVEL) $(ARGS)

bench: setup ## Run the benchmarks; ARGS are theirs
	$(py) -m benchmarks $(ARGS)

pictures: setup ## Draw the pictures of the screens again; needs tmux, ARGS=chat picks one
	$(py) -m scripts.pictures $(ARGS)

lock: ## Pin the requirements in pyproject.toml; ARGS=--upgrade moves every pin
	@sh scripts/lock $(ARGS)

clean: ## Remove caches and build products; keeps .venv
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . \( -name .venv -o -name .git \) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
