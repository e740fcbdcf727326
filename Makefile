# Options reach the program by the environment
ANYWHERE = CONFIG RESULTS VERBOSE JOBS SCHEDULER FORMAT PYTHON CHROMIUM
# Only typed: others may set V=1.
TYPED = SWEEP EXAMPLE Q K V MASK SCALING OUT
export PYTHON ?= python3
export CHROMIUM ?= /usr/bin/chromium

given := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
known := $(ANYWHERE) $(if $(filter clear-%,$(MAKECMDGOALS)),,$(TYPED))
odd := $(filter-out $(known) MAKE% SHELL,$(given))
$(if $(odd),$(error make: got $(odd:%=%=), expected some of $(known)))
TESTS = coverage faults edits cluster slow models notebooks page
COMMANDS := $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile)
other := $(firstword $(filter-out $(COMMANDS) $(TESTS:%=test-%) .venv/%,$(MAKECMDGOALS)))
$(if $(other),$(error make: got $(other), expected \
  $(if $(filter %.yaml %.yml,$(other)),CONFIG,SWEEP)=$(other), or see make help))
$(if $(filter quick,$(MAKECMDGOALS)),$(if $(filter CONFIG,$(given)),$(error make quick: expected make all CONFIG=$(CONFIG))))

PY = .venv/bin/python
# Dots show life.
PIP = while kill -0 $$$$ 2>&-; do printf .; sleep 2; done & \
  $(PY) -m pip install -q --disable-pip-version-check
PYTEST = $(PY) -m pytest -n "$${JOBS:-$(or $(WORKERS),auto)}" --dist worksteal
.PHONY: $(COMMANDS)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "Options: SWEEP=NAME,NAME CONFIG=FILE RESULTS=DIR JOBS=N FORMAT=pdf,svg VERBOSE=1"
	@echo "First: make quick. Your own sweep: make all CONFIG=mine.yaml (docs/cases.md)"
	@echo "Your q, k or kernel: .venv/bin/sdpa --help (docs/your-model.md)"

quick: ## a first look in a minute: quick.yaml
all: ## measure, draw, check, and write the page
watch: ## measure and draw at every save
plan: ## show what would run, its time and memory
results: ## measure, and write tables
figures: ## draw figures from tables
check: ## compare tables with config and exact values
page: ## write index.html
clear-leftovers: ## remove files of what the config no longer has
walk: ## print worked examples (EXAMPLE=abc), or your Q=q.csv K= V=
model: .venv/model-ready ## run a pretrained model (93 MB)
readme: ## rewrite generated parts of pages

audit-libraries: PY = .venv-libraries/bin/python
audit-libraries: .venv-libraries/ready ## audit public functions (6 GB)
	@KERAS_BACKEND=numpy $(PY) -W ignore -m experiments.studies.libraries.write

quick: export CONFIG = quick.yaml
quick: DO = all
results: DO = run
figures: DO = draw
quick all watch plan results figures check page clear-leftovers walk model readme: .venv/ready
	@SDPA_GIVEN="$(ANYWHERE) $(given)" $(PY) -m experiments $(or $(DO),$@)

notebooks: .venv/notebooks-ready ## run the notebooks of docs/
	@$(PY) docs/run_notebooks.py

cluster: .venv/dask-ready ## install Dask, for SCHEDULER=ADDRESS (docs/cases.md)

lint: .venv/dev-ready ## check style and types
	@$(PY) -m ruff check && $(PY) -m ruff format --check && $(PY) -m mypy

test: .venv/dev-ready ## run tests; CONTRIBUTING.md has more
	@$(PYTEST)

test-coverage: MARK = slow
test-slow: MARK = slow or faults or edits or cluster
test-cluster test-slow: .venv/dask-ready
test-models test-notebooks test-page: WORKERS = 0
test-notebooks: .venv/notebooks-ready
test-page: .venv/browser-ready
$(TESTS:%=test-%): test-%: .venv/dev-ready
	@$(PYTEST) -m "$(or $(MARK),$*)"

clean: ## remove uncommitted files that can be rebuilt
	git clean -fdXq . ':!results'
	rm -rf results/quick results/walk results/.cells

.venv/ready: requirements.lock pyproject.toml
	@"$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or later, got $$PYTHON; choose by PYTHON=" >&2; exit 1; }
	@echo "Installing into .venv: a minute or two"
	@rm -rf .venv
	@"$$PYTHON" -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@echo; touch $@

.venv-libraries/ready: requirements-libraries.lock
	@rm -rf $(@D)
	@"$$PYTHON" -m venv $(@D)
	@$(PIP) --require-hashes --no-deps -r $<
	@echo; touch $@

.venv/%-ready: requirements-%.lock .venv/ready
	@$(PIP) --require-hashes -r $< $(if $(filter model,$*),--no-deps)
	@echo; touch $@

.venv/dask-ready: .venv/cluster-ready experiments/measuring/processor.py
	@mkdir -p .venv/etc/dask
	@$(PY) -m experiments.measuring.processor > .venv/etc/dask/sdpa.yaml
	@touch $@

.venv/browser-ready: .venv/page-ready
	@.ci/axe && touch $@
