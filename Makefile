# The commands that users type. Variables such as CONFIG=mine.yaml reach the program in the environment, as options of the
# same names. On the command line of make, $$ is a dollar sign.
ANYWHERE = CONFIG RESULTS VERBOSE JOBS SCHEDULER SCHEDULER_FILE FORMAT PYTHON CHROMIUM
# Only on the command line: other programs may set V=1.
TYPED = YES EXAMPLE Q K V MASK SCALING OUT NAME FULL
PYTHON ?= python3
CHROMIUM ?= /usr/bin/chromium
export PYTHON CHROMIUM

# make takes any other word for a file, and would do nothing.
COMMANDS := $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile)
words := $(filter-out $(COMMANDS) .venv/%,$(MAKECMDGOALS))
$(if $(words),$(error make: got the words $(words), expected commands of make help, and values as NAME=VALUE, such as make all CONFIG=mine.yaml))

given := $(sort $(foreach one,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(one)))),$(one))))
unknown := $(filter-out $(ANYWHERE) $(TYPED) MAKE% SHELL,$(given))
$(if $(unknown),$(error make: got $(unknown:%=%=), expected some of $(ANYWHERE) $(TYPED)))

$(if $(filter quick,$(MAKECMDGOALS)),$(if $(filter CONFIG,$(given)),$(error make quick: got CONFIG=, expected none; make all takes it)))

# The values of those variables that are given, as arguments without a name.
values = $(foreach one,$(filter $(given),$(1)),"$$$(one)")

PY = .venv/bin/python
SUITE = SDPA_GIVEN="$(ANYWHERE) $(given)" $(PY) -m experiments
PYTEST = $(PY) -m pytest
PARALLEL = $(PYTEST) -n "$${JOBS:-auto}" --dist worksteal
READY = .venv/ready
DEV_READY = .venv/dev-ready
DASK_READY = .venv/dask-ready
CAN_RUN = $(READY) $(if $(SCHEDULER)$(SCHEDULER_FILE),$(DASK_READY))
PIP = $(PY) -m pip install --quiet --disable-pip-version-check
INSTALL = $(PIP) --require-hashes --requirement

.DEFAULT_GOAL = help
.PHONY: $(COMMANDS)

##@ Sweeps

all: $(CAN_RUN) ## measure every sweep, draw, check, and write the page
	@$(SUITE) all

quick: override export CONFIG = quick.yaml
quick: $(CAN_RUN) ## the same for quick.yaml, a small config: a first look in a minute
	@$(SUITE) all

results: $(CAN_RUN) ## measure every sweep and write its table
	@$(SUITE) run

plan: $(CAN_RUN) ## show what would run, its time and memory
	@$(SUITE) plan

cluster: $(DASK_READY) ## install Dask, for SCHEDULER=tcp://HOST:8786

##@ Results

figures: $(READY) ## draw every figure from its tables
	@$(SUITE) draw

slides: ## draw slides for a talk, PNG and PDF, into results/slides
check: ## compare tables with config, checksums and exact values
page: ## write index.html into the results folder
statements: ## count the published statements that are right; list the others

slides check page statements prune readme: $(READY)
	@$(SUITE) $@

##@ Examples, and pretrained models

walk: $(READY) ## print worked examples (EXAMPLE=abc), or use your Q=q.csv K= V=
	@$(SUITE) walk -- $(call values,EXAMPLE)

model: .venv/model-ready ## diagnose a pretrained BERT (83 MB) and a language model (93 MB)
	@$(SUITE) model

##@ Tests

test: $(DEV_READY) ## run all tests except the slow ones
	@$(PARALLEL)

test-coverage: ## slow: coverage of intervals, p-values, exact standard deviations
test-faults: ## slow: kills and damaged files, on real processes
test-edits: ## slow: edit config.yaml in a copy of this folder, and run make all
test-cluster: $(DASK_READY) ## slow: runs on a Dask cluster, with kills and wrong workers
test-recipes: ## slow: the recipes of CONTRIBUTING.md, in copies of this folder
test-slow: $(DASK_READY) ## slow: the five above in one go
test-models: ## test your-model.md, monitor.md and audit.md with the installed frameworks
test-notebooks: .venv/notebooks-ready ## run the notebooks of docs/ and compare their outputs

test-coverage: MARK = slow
test-slow: MARK = slow or faults or edits or cluster or recipes
test-coverage test-faults test-cluster test-recipes test-slow: test-%: $(DEV_READY)
	@$(PARALLEL) -m "$(or $(MARK),$*)"

test-edits test-models test-notebooks: test-%: $(DEV_READY)
	@$(PYTEST) -m $*

test-page: $(DEV_READY) .venv/browser-ready ## test the page in a browser (CHROMIUM=PATH; needs npm once)
	@test -x "$$CHROMIUM" || { echo "found no Chromium at $$CHROMIUM; set CHROMIUM=PATH"; exit 1; }
	@$(PYTEST) -m page

lint: $(DEV_READY) ## run ruff (style and format) and mypy (types)
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

##@ Maintenance

readme: ## rewrite the generated parts of README.md, docs/ and config.schema.json
prune: ## remove tables and figures of sweeps that the config no longer has

notebooks: .venv/notebooks-ready ## run the notebooks of docs/ and write their outputs
	@$(PY) docs/run_notebooks.py

calibration: $(READY) ## slow: count false alarms and missed faults of the check (NAME=pair, FULL=1)
	@$(PY) -m benchmarks.calibration $(if $(filter FULL,$(given)),--full) $(call values,NAME)

cost: $(READY) ## measure time and memory of attention here
	@$(PY) -m benchmarks.speed cost

bench: $(READY) ## slow: compare the time of the suite with the least work for it
	@$(PY) -m benchmarks.speed speed

LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url \
  --no-emit-find-links --no-header --no-annotate pyproject.toml
lock_group = $(LOCK) --group $(1) --constraint requirements.lock $(2) --output-file requirements-$(1).lock

lock: ## resolve the requirements*.lock files (needs uv)
	$(LOCK) --group suite --output-file requirements.lock
	$(call lock_group,dev)
	$(call lock_group,cluster,--group suite)
	$(call lock_group,model,--no-deps)
	$(call lock_group,page)
	$(call lock_group,notebooks,--constraint requirements-dev.lock --constraint requirements-cluster.lock)

clean: ## remove what is not committed and can be rebuilt
	rm -rf .venv .*_cache .hypothesis results/quick results/walk results/slides results/.cells
	find results \( -name .lock -o -name .made.json -o -name long-format.csv -o -name '*.svg' -o -name '*.pdf' \) -delete
	find sdpa experiments benchmarks tests -name __pycache__ -prune -exec rm -rf {} +

help: ## show this list
	@awk -F ':.*## ' '/^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "Options: CONFIG=FILE RESULTS=DIR VERBOSE=1 FORMAT=pdf,svg JOBS=N YES=1 (runs of over an hour)"
	@echo "         SCHEDULER=ADDRESS SCHEDULER_FILE=FILE (see docs/README.md)"
	@echo "Your own q, k or kernel: .venv/bin/sdpa diagnose, compare, audit, design (docs/your-model.md)"
	@echo "Start with make quick. Your own sweep: make all CONFIG=mine.yaml (docs/cases.md has examples)"

$(READY): requirements.lock pyproject.toml
	@command -v "$$PYTHON" >/dev/null || { echo "expected Python 3.11 or later, found no program $$PYTHON; choose one with PYTHON=" >&2; exit 1; }
	@"$$PYTHON" -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) or sys.exit("expected Python 3.11 or later, got %d.%d; choose another with PYTHON=" % v)'
	@test ! -L .venv || { echo "expected a folder .venv of this clone alone, got a link; remove it" >&2; exit 1; }
	@echo "Installing packages into .venv; this takes about half a minute, once"
	"$$PYTHON" -m venv --clear .venv
	$(INSTALL) requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/%-ready: requirements-%.lock $(READY)
	$(INSTALL) $< $(if $(filter model,$*),--no-deps)
	@touch $@

$(DASK_READY): .venv/cluster-ready experiments/measuring/processor.py
	@mkdir -p .venv/etc/dask # Dask finds the environment of its workers there
	@$(PY) -c 'import json; from experiments.measuring.processor import VARIABLES as v; print(json.dumps({"distributed": {"nanny": {"pre-spawn-environ": v}}}))' > .venv/etc/dask/sdpa.yaml
	@touch $@

# axe-core finds accessibility problems.
.venv/browser-ready: .venv/page-ready Makefile
	cd .venv && npm pack --silent axe-core@4.14.1
	echo "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745  .venv/axe-core-4.14.1.tgz" | sha256sum --check --quiet
	tar -xzf .venv/axe-core-4.14.1.tgz -C .venv package/axe.min.js
	@touch $@
