# make book      build the book from a fresh clone; needs Python 3.11 or newer and a network to install from
# make pdf       the book as one PDF too, _build/html/book.pdf; needs Chromium or Chrome
# make test      check everything: style, types, layers, units, examples, chapters, and the pages in a browser.
#                A test that needs a data set, a browser or an optional library that is not here is skipped; the last
#                lines say what to do about it
# make test-more only the tests that need one of these
# make bench     the speed claims, measured here and printed; make bench KEEP=--keep puts the rows into the book's table
# make campaign  what is too long for each change: hundreds of kills and other faults of a store; audits of planted faults
#                and of sound trainings; bounds against lower bounds, all constructors composed; the figures of all but
#                the first are kept for the book
# make coverage  which lines the unit tests reach: a table, and _build/coverage/index.html
# make setup     only install, into .venv, which is made again where it is broken; another Python: make setup PYTHON=python3.13
# make wheel     the package with the book as one file, in dist/, and the command that installs it elsewhere
# make clean     remove what the others made, apart from .venv and runs/

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
COMPILE ?= --compile-bytecode
UNFINISHED := $(VENV)/.unfinished
SOUND := import sys, pip; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < (3, 11))
RUN := $(VENV)/bin/python -m
SOURCES := conftest.py README.md dpnotes tests book benchmarks
TESTS := OMP_NUM_THREADS=1 $(RUN) pytest -n 2
KEEP ?=  # --keep: `make bench` puts its rows into book/results/benchmarks.csv
HAVE ?=  # what `make test-more` must find here: "mnist browser"

# What a step that fails ends with: one line that says what to do next.
next = { code=$$?; printf '\nmake %s stopped: %s\n' '$(patsubst $(INSTALLED),setup,$@)' '$(1)' >&2; exit $$code; }
AGAIN = tests that failed run again with $(TESTS) --doctest-modules dpnotes tests --last-failed

.PHONY: book pdf test test-more bench campaign coverage setup wheel clean
.DEFAULT_GOAL := book

book: setup
	@echo "-- the chapters are executed and the pages are made: 3 minutes on two cores; later only what changed"
	@$(RUN) dpnotes build || $(call next,the message above names the chapter or page; after mending it run make book again)

pdf: setup
	@$(RUN) dpnotes build --pdf || $(call next,the message above says what is missing)

test: setup
	@echo "-- style and types and layers"
	@$(RUN) ruff check $(SOURCES) && $(RUN) ruff format --check $(SOURCES) \
	|| $(call next,mend the style with $(VENV)/bin/ruff check --fix and $(VENV)/bin/ruff format)
	@$(RUN) mypy || $(call next,mend the types that mypy names above)
	@$(VENV)/bin/lint-imports || $(call next,an import goes against the layers that ARCHITECTURE.md draws)
	@echo "-- the book with every warning an error: 3 minutes on two cores, less where little changed"
	@$(RUN) dpnotes build --strict || $(call next,mend the page that is named above and run dpnotes build --strict)
	@echo "-- all tests: 10 minutes on two cores, with a browser 15"
	@$(TESTS) --doctest-modules dpnotes tests || $(call next,$(AGAIN))

test-more: setup
	@$(TESTS) tests -m needs --have "$(strip $(HAVE))" || $(call next,$(AGAIN))

bench: setup
	@$(RUN) benchmarks $(KEEP) || $(call next,the message above says what was measured and how to go on)

campaign: setup
	OMP_NUM_THREADS=1 $(RUN) tests.faults
	for part in faults sound strategies; do OMP_NUM_THREADS=1 $(RUN) benchmarks.audit_faults $$part --keep; done
	OMP_NUM_THREADS=1 $(RUN) benchmarks.tightness --keep

coverage: setup
	@$(TESTS) --cov=dpnotes --cov-report=term:skip-covered --cov-report=html:_build/coverage \
	tests --ignore tests/book --ignore tests/benchmarks || $(call next,$(AGAIN))

wheel: setup
	@rm -f dist/*.whl
	@$(RUN) hatchling build -t wheel || $(call next,the message above says which file the wheel lacks)
	@echo "to install it elsewhere: pip install \"$$(ls dist/*.whl)[book]\""

# Builds .venv again where an earlier setup was interrupted, and where it is no virtual environment with pip: there, pip
# would install into the system's Python.
setup:
	@if [ -e $(VENV) -o -L $(VENV) ] && { [ -e $(UNFINISHED) ] || ! $(VENV)/bin/python -I -c '$(SOUND)' 2> /dev/null; }; then \
	echo "$(VENV) is incomplete, or no virtual environment with pip and Python 3.11 or newer: it is made again"; \
	rm -rf $(VENV).old && mv $(VENV) $(VENV).old; fi
	@rm -rf $(VENV).old
	@$(MAKE) --no-print-directory $(INSTALLED)

$(INSTALLED): pyproject.toml requirements.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("dpnotes needs Python 3.11 or newer, and $(PYTHON) is %d.%d; \
	name another: make setup PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "-- installing into $(VENV): 3 GB to download, 6.5 GB on disk, nearly all of it PyTorch; minutes"
	@mkdir -p $(VENV) && touch $(UNFINISHED)
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV) \
	|| $(call next,install the module venv (on Debian and Ubuntu the package python3-venv) and run make setup again)
	@$(RUN) pip install --quiet --disable-pip-version-check uv && \
	$(RUN) uv pip install --quiet $(COMPILE) --python $(VENV)/bin/python -r requirements.txt -c constraints.txt \
	|| $(call next,check the network and the space on the disk and in your cache folder and run make setup again; what was downloaded is kept)
	@mv $(UNFINISHED) $@ && touch $@

clean:
	rm -rf _build build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find dpnotes tests book benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
