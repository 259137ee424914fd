# make book     build the book from a fresh clone; needs Python 3.11 or newer and a network to install from
# make pdf      the book as one PDF too, _build/book.pdf; needs Chromium or Chrome
# make test     everything that is checked: style, types, layers, units, examples, chapters, the pages in a browser
# make bench    the speed claims
# make campaign what is too long for each change: every wrong version of a formula that a claim rests on, of the rule of
#               verdicts and of what turns runs into rows must be noticed, bounds against lower bounds, all constructors
#               composed; hundreds of kills and other faults of a store; audits of planted faults
#               and of sound trainings; the figures are kept for the book
# make coverage which lines the unit tests reach: a table, and _build/coverage/index.html
# make setup    only install, into .venv, which is made anew where it is broken; another Python: make setup PYTHON=python3.13
# make clean    remove what the others made, apart from .venv and runs/

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
COMPILE ?= --compile-bytecode
UNFINISHED := $(VENV)/.unfinished
SOUND := import sys, pip; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < (3, 11))
RUN := $(VENV)/bin/python -m

.PHONY: book pdf test bench campaign coverage setup clean
.DEFAULT_GOAL := book

book: setup
	$(RUN) dpnotes build

pdf: setup
	$(RUN) dpnotes build --pdf

test: setup
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	OMP_NUM_THREADS=1 $(RUN) pytest -n 2 --doctest-modules dpnotes tests --ignore tests/book
	$(RUN) dpnotes build --strict
	DPNOTES_BOOK_BUILT=1 OMP_NUM_THREADS=1 $(RUN) pytest -n 2 tests/book

bench: setup
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/bench.py --keep

campaign: setup
	OMP_NUM_THREADS=1 $(RUN) tests.claims --keep
	OMP_NUM_THREADS=1 $(RUN) tests.mutants --keep
	OMP_NUM_THREADS=1 $(RUN) tests.row_mutants --keep
	OMP_NUM_THREADS=1 $(RUN) tests.faults --keep
	OMP_NUM_THREADS=1 $(RUN) tests.faults.costs --keep
	OMP_NUM_THREADS=1 $(RUN) tests.audits --keep
	OMP_NUM_THREADS=1 $(RUN) tests.audits --sound 100 --keep
	OMP_NUM_THREADS=1 $(RUN) tests.audits --strategies --keep
	OMP_NUM_THREADS=1 PYTHONPATH=. $(VENV)/bin/python benchmarks/tightness.py --keep

coverage: setup
	OMP_NUM_THREADS=1 $(RUN) pytest -n 2 --cov=dpnotes --cov-report=term:skip-covered --cov-report=html:_build/coverage \
	tests --ignore tests/book --ignore tests/benchmarks

# Builds .venv anew where an earlier setup was interrupted, and where it is no virtual environment with pip: there, pip
# would install into the system's Python.
setup:
	@if [ -e $(VENV) -o -L $(VENV) ] && { [ -e $(UNFINISHED) ] || ! $(VENV)/bin/python -I -c '$(SOUND)' 2> /dev/null; }; then \
	echo "$(VENV) is incomplete, or no virtual environment with pip and Python 3.11 or newer: it is made anew"; \
	rm -rf $(VENV).old && mv $(VENV) $(VENV).old; fi
	@rm -rf $(VENV).old
	@$(MAKE) --no-print-directory $(INSTALLED)

$(INSTALLED): pyproject.toml requirements.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("dpnotes needs Python 3.11 or newer, and $(PYTHON) is %d.%d; \
	name another: make setup PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@mkdir -p $(VENV) && touch $(UNFINISHED)
	[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --disable-pip-version-check uv
	$(RUN) uv pip install --quiet $(COMPILE) --python $(VENV)/bin/python -r requirements.txt -c constraints.txt
	@mv $(UNFINISHED) $@ && touch $@

clean:
	rm -rf _build build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find dpnotes tests book benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
