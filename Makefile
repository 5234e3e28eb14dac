# Everything one does with this repository. `make` alone lists it.
# Nothing outside .venv/ is installed; every pip call is held to constraints.txt.

PYTHON ?= python3.11
VENV := .venv
VENV_BENCH := .venv-bench
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES_OF_INSTALL := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow calibrate bench lint ruff types clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## train two small models while watching them, then write the page (ARGS="--preset smoke" is the short way)
	$(BIN)/anisoscope demo $(ARGS)

test: $(VENV)/.installed-test ## run the default tests (ARGS goes to pytest)
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: $(VENV)/.installed-test ## run only the tests marked slow; date the run in docs/log.md
	$(BIN)/python -m pytest -m slow $(ARGS)

calibrate: $(VENV_BENCH)/.installed ## measure false alarms, coverage and bias anew, and write docs/calibration.md (about half an hour)
	$(VENV_BENCH)/bin/python -m benchmarks.calibration $(ARGS)

bench: $(VENV_BENCH)/.installed ## time the kernels beside their peers, and write benchmarks/results/ (its own installation)
	$(VENV_BENCH)/bin/python -m benchmarks $(ARGS)

lint: ruff types ## check format, lint and types

ruff: $(VENV)/.installed-dev ## check format and lint only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev ## check types only
	$(BIN)/pyright

clean: ## delete the installation and every cache; runs are kept
	rm -rf $(VENV) $(VENV_BENCH) .pytest_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp an installation, written last, so that an interrupted one is taken up again.
$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here. Python 3.11 or newer is needed: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(SOURCES_OF_INSTALL)
	@echo "installing anisoscope into $(VENV) (about a minute)"
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created $(SOURCES_OF_INSTALL)
	@echo "installing anisoscope and what its tests need into $(VENV) (about a minute)"
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(VENV)/.created $(SOURCES_OF_INSTALL)
	@echo "installing anisoscope and its development tools into $(VENV) (about a minute)"
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

# The peers need older versions of what the project itself uses: an installation of their own.
$(VENV_BENCH)/.installed: $(SOURCES_OF_INSTALL)
	$(PYTHON) -m venv $(VENV_BENCH)
	@echo "installing anisoscope and the peers it is compared with into $(VENV_BENCH) (some minutes)"
	$(VENV_BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@
