# Everything here works in a fresh clone with Python (3.11 or newer), git and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# With the repository root on sys.path, `import datasets` would find our folder.
export PYTHONSAFEPATH := 1

version := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
constraints := $(wildcard constraints/python$(version).txt)
stamp := $(VENV)/.installed
jobs ?= 2

.PHONY: demo test test-engines check format bench browser constraints clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

demo: $(stamp)  ## the whole path on bundled traces: engine, replay, report
	$(BIN)/agentx demo

test: $(stamp) browser  ## every test but those of real engines
	$(BIN)/pytest -n $(jobs) --dist loadscope -m "not engines"

test-engines: $(stamp)  ## tests against real serving engines (slow; installs them)
	$(BIN)/pytest -m engines

check: $(stamp)  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(stamp)  ## rewrite the code as `check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(stamp)  ## performance, as ratios measured in one run
	$(BIN)/python -m benchmarks

browser: $(stamp)
	@$(BIN)/python tests/browser.py

constraints:  ## write the constraints file of this Python from a new resolution
	rm -rf $(VENV)-resolve && $(PYTHON) -m venv $(VENV)-resolve
	$(VENV)-resolve/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-resolve/bin/python -m pip install --quiet -e '.[all]' --group dev
	$(VENV)-resolve/bin/python -m pip freeze --exclude-editable > constraints/python$(version).txt
	rm -rf $(VENV)-resolve

$(stamp): pyproject.toml $(constraints)
	@$(PYTHON) -c 'import sys; sys.exit("AgentX needs Python 3.11 or newer, this is %s: run make PYTHON=/path/to/python3.11" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet $(if $(constraints),-c $(constraints)) -e '.[all]' --group dev
	@touch $@

clean:  ## remove what the targets made
	rm -rf $(VENV) $(VENV)-resolve .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
