# What users type. Values such as CONFIG=mine.yaml reach the program in the environment.
ANYWHERE = CONFIG RESULTS VERBOSE JOBS SCHEDULER FORMAT PYTHON CHROMIUM
# Only on the command line: others may set V=1.
TYPED = SWEEP EXAMPLE Q K V MASK SCALING OUT
export PYTHON ?= python3
export CHROMIUM ?= /usr/bin/chromium

given := $(foreach one,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(one)))),$(one)))
unknown := $(filter-out $(ANYWHERE) $(TYPED) MAKE% SHELL,$(given))
$(if $(unknown),$(error make: got $(unknown:%=%=), expected some of $(ANYWHERE) $(TYPED)))
files := $(filter %.yaml %.yml,$(MAKECMDGOALS))
$(if $(files),$(error make: got $(files), expected CONFIG=$(firstword $(files))))
$(if $(filter 0 -%,$(JOBS)),$(error make: got JOBS=$(JOBS), expected at least 1))
$(if $(filter quick,$(MAKECMDGOALS)),$(if $(filter CONFIG,$(given)),$(error make quick: expected make all CONFIG=$(CONFIG))))

PY = .venv/bin/python
PIP = $(PY) -m pip install --quiet --disable-pip-version-check
PYTEST = $(PY) -m pytest -n "$${JOBS:-$(or $(WORKERS),auto)}" --dist worksteal
COMMANDS := $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile)
.PHONY: $(COMMANDS)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "Options: SWEEP=NAME,NAME CONFIG=FILE RESULTS=DIR JOBS=N FORMAT=pdf,svg VERBOSE=1"
	@echo "Start with make quick. Your own sweep: make all CONFIG=mine.yaml (docs/cases.md)"
	@echo "Your own q, k or kernel: .venv/bin/sdpa --help (docs/your-model.md)"

quick: ## a first look in a minute: quick.yaml, three small sweeps
all: ## measure every sweep, draw, check, and write the page
watch: ## measure and draw again at every save of the config
plan: ## show what would run, its time and memory
results: ## measure every sweep and write its table
figures: ## draw every figure from its tables
check: ## compare tables with config, checksums and exact values
page: ## write index.html into the results folder
walk: ## print worked examples (EXAMPLE=abc), or use your Q=q.csv K= V=
model: .venv/model-ready ## run a pretrained model (93 MB)
readme: ## rewrite generated parts of pages

quick: export CONFIG = quick.yaml
quick: DO = all
results: DO = run
figures: DO = draw
quick all watch plan results figures check page walk model readme: .venv/ready
	@SDPA_GIVEN="$(ANYWHERE) $(given)" $(PY) -m experiments $(or $(DO),$@)

notebooks: .venv/notebooks-ready ## run the notebooks of docs/
	@$(PY) docs/run_notebooks.py

cluster: .venv/dask-ready ## install Dask, for SCHEDULER=ADDRESS (docs/cases.md)

lint: .venv/dev-ready ## check style and types
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

test: .venv/dev-ready ## run all tests but those of CONTRIBUTING.md
	@$(PYTEST)

test-coverage: MARK = slow
test-slow: MARK = slow or faults or edits or cluster
test-cluster test-slow: .venv/dask-ready
test-models test-notebooks test-page: WORKERS = 0
test-notebooks: .venv/notebooks-ready
test-page: .venv/browser-ready
test-coverage test-faults test-edits test-cluster test-slow \
test-models test-notebooks test-page: test-%: .venv/dev-ready
	@$(PYTEST) -m "$(or $(MARK),$*)"

clean: ## remove uncommitted files that can be rebuilt
	git clean -fdXq . ':!results'
	rm -rf results/quick results/walk results/.cells

.venv/ready: requirements.lock pyproject.toml
	@"$$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or later, got $$PYTHON; choose another with PYTHON=" >&2; exit 1; }
	@echo "Installing packages into .venv, once: half a minute"
	@rm -rf .venv
	@"$$PYTHON" -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/%-ready: requirements-%.lock .venv/ready
	@$(PIP) --require-hashes -r $< $(if $(filter model,$*),--no-deps)
	@touch $@

.venv/dask-ready: .venv/cluster-ready experiments/measuring/processor.py
	@mkdir -p .venv/etc/dask
	@$(PY) -m experiments.measuring.processor > .venv/etc/dask/sdpa.yaml
	@touch $@

.venv/browser-ready: .venv/page-ready
	@.ci/axe
	@touch $@
