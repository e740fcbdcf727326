# The commands that users type. The commands about sweeps take CONFIG=, RESULTS= and JOBS=.

CONFIG ?= config.yaml
PYTHON ?= python3
VERBOSELY = $(if $(VERBOSE),--verbose)
OPTIONS = --config "$(CONFIG)" $(if $(RESULTS),--results "$(RESULTS)")
CLUSTER = $(if $(SCHEDULER),--scheduler "$(SCHEDULER)") $(if $(SCHEDULER_FILE),--scheduler-file "$(SCHEDULER_FILE)")
DRAW_OPTIONS = $(if $(FORMAT),--format "$(FORMAT)")
RUN_OPTIONS = $(OPTIONS) $(if $(JOBS),--jobs $(JOBS)) $(CLUSTER) $(VERBOSELY)
CONSENT = $(if $(YES),$(if $(call typed,YES),--yes))
PY = .venv/bin/python
SUITE = $(PY) -m experiments
READY = .venv/ready
CLUSTER_READY = .venv/cluster-ready
CAN_RUN = $(READY) $(if $(strip $(CLUSTER)),$(CLUSTER_READY))
# The browser that tests the page; the version and archive of axe-core, which finds accessibility problems.
CHROMIUM ?= /usr/bin/chromium
BROWSER_READY = .venv/browser-ready
NOTEBOOKS_READY = .venv/notebooks-ready
AXE = axe-core-4.14.1
AXE_SHA256 = e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

.DEFAULT_GOAL = help
.PHONY: all quick results figures check page plan prune walk diagnose test test-page test-claims test-coverage test-faults test-edits test-cluster test-recipes test-notebooks test-models cluster calibration lint statements cost bench readme notebooks lock clean help

##@ Running sweeps

all: $(CAN_RUN) ## set up the environment, measure every sweep, draw, check, write the page
	@$(SUITE) all $(RUN_OPTIONS) $(DRAW_OPTIONS) $(CONSENT)

quick: ## run make all on quick.yaml, a small config: a first look in less than a minute
	@$(MAKE) --no-print-directory all CONFIG=quick.yaml

results: $(CAN_RUN) ## measure every sweep and write its table
	@$(SUITE) run $(RUN_OPTIONS) $(CONSENT)

plan: $(CAN_RUN) ## show what would run, what is already measured, and the time and memory
	@$(SUITE) plan $(RUN_OPTIONS)

cluster: $(CLUSTER_READY) ## install Dask, for runs with SCHEDULER=tcp://HOST:8786; see docs/cluster.md

##@ Looking at results

figures: $(READY) ## draw every figure from its tables
	@$(SUITE) draw $(OPTIONS) $(DRAW_OPTIONS) $(VERBOSELY)

check: $(READY) ## compare tables with config and checksums, and measured with exact values
	@$(SUITE) check $(OPTIONS) $(VERBOSELY)

page: $(READY) ## write index.html into the results folder
	@$(SUITE) page $(OPTIONS) $(VERBOSELY)

statements: $(READY) ## count the published statements that are right, and list the others
	@$(SUITE) statements $(if $(JOBS),--jobs $(JOBS)) $(VERBOSELY)

##@ Your own data

# Q=, K=, V=, FILE=, MASK=, SCALING=, AXES= and OUT= count on the command line only: other programs may set V=1 in the
# environment.
lower = $(shell echo $(1) | tr A-Z a-z)
typed = $(filter command,$(firstword $(origin $(1))))
given = $(if $(call typed,$(1)),--$(call lower,$(1)) "$($(1))")
quoted = $(if $(call typed,$(1)),"$($(1))")
walk: $(READY) ## list the worked examples, print one (EXAMPLE=abc), or use your Q=q.csv K= V=
	@$(SUITE) walk $(if $(EXAMPLE),"$(EXAMPLE)") $(foreach one,Q K V MASK SCALING OUT,$(call given,$(one)))

diagnose: $(READY) ## diagnose your queries and keys (Q=q.npy K=k.npy or FILE=qk.npz), or an example
	@$(SUITE) diagnose $(foreach one,FILE Q K,$(call quoted,$(one))) $(foreach one,MASK SCALING AXES OUT,$(call given,$(one)))

##@ Tests

test: $(READY) ## run all tests except the slow ones, with one process per core or JOBS=N
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal

test-page: $(BROWSER_READY) ## test the page of results/ in a browser (CHROMIUM=PATH; needs npm once)
	@test -x "$(CHROMIUM)" || { echo "found no Chromium at $(CHROMIUM); set its path with CHROMIUM="; exit 1; }
	@CHROMIUM="$(CHROMIUM)" $(PY) -m pytest -m page

test-claims: $(READY) ## slow, after make all: list sentences that last digits or one run change
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m claims

test-coverage: $(READY) ## slow: test coverage of intervals, p-values, and exact standard deviations
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m slow

test-faults: $(READY) ## slow: test kills, damaged files and hostile configs on real processes
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m faults

test-edits: $(READY) ## slow: edit config.yaml in a copy of this folder, and run make all and tests
	@$(PY) -m pytest -m edits

test-cluster: $(CLUSTER_READY) ## slow: test runs on a Dask cluster, with kills and wrong workers
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m cluster

test-recipes: $(READY) ## slow: follow the recipes of CONTRIBUTING.md in copies of this folder
	@$(PY) -m pytest -n $(or $(JOBS),auto) -m recipes

test-models: $(READY) ## test docs/your-model.md with PyTorch, Transformers and JAX, where installed
	@$(PY) -m pytest -m models

test-notebooks: $(NOTEBOOKS_READY) ## run the notebooks of docs/ in clean kernels and compare their outputs
	@$(PY) -m pytest -m notebooks

lint: $(READY) ## run ruff (style and format) and mypy (types)
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

##@ Maintenance

readme: $(READY) ## rewrite the generated parts of README.md and docs/, and config.schema.json
	@$(SUITE) readme

notebooks: $(NOTEBOOKS_READY) ## run the notebooks of docs/ and write their outputs into them
	@$(SUITE) notebooks

prune: $(READY) ## remove tables and figures of sweeps that the config no longer has
	@$(SUITE) prune $(OPTIONS)

calibration: $(READY) ## slow: count false alarms and missed faults of the check (FULL=1: all configs)
	@$(SUITE) calibrate $(if $(FULL),--full)

cost: $(READY) ## measure the time and memory of attention on this machine, and their growth
	@$(SUITE) cost

bench: $(READY) ## slow: compare the speed of the suite with other ways to measure
	@$(SUITE) bench

lock: ## resolve the four requirements*.lock files from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group suite --group dev --upgrade pyproject.toml \
	  --output-file requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group suite --group cluster --upgrade pyproject.toml \
	  --constraint requirements.lock --output-file requirements-cluster.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group page --upgrade --constraint requirements.lock \
	  --output-file requirements-page.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group notebooks --upgrade --constraint requirements.lock \
	  --constraint requirements-cluster.lock --output-file requirements-notebooks.lock

clean: ## remove everything that is not committed and can be rebuilt
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis results/quick results/walk results/.cells
	find results -path 'results/diagnosis/*' -prune ! -name training -exec rm -rf {} +
	rm -f results/diagnosis/training/qk.npz
	find results \( -name .lock -o -name .made.json -o -name manifest.json -o -name long-format.csv \) -delete
	find sdpa experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find results \( -name '*.svg' -o -name '*.pdf' \) -exec sh -c 'test ! -f "$${1%.*}.txt" || rm "$$1"' _ {} \;

help: ## show this list
	@awk -F ':.*## ' '/^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "Options"
	@echo "  all, results, figures, check, page, plan, prune: CONFIG=FILE (now $(CONFIG)), RESULTS=DIR"
	@echo "  all, results, plan: JOBS=N workers (statements, too); SCHEDULER=ADDRESS or SCHEDULER_FILE=FILE"
	@echo "  all, figures: FORMAT=pdf draws PDFs, too; all, results: YES=1 for more than an hour; VERBOSE=1"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) or sys.exit("expected Python 3.11 or later, got %d.%d; choose another with PYTHON=" % v)'
	$(PYTHON) -m venv --clear .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(CLUSTER_READY): $(READY) requirements-cluster.lock experiments/harness/processor.py
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-cluster.lock
	@mkdir -p .venv/etc/dask # where Dask looks for the environment of its workers
	@$(PY) -c 'import json; from experiments.harness.processor import VARIABLES as v; print(json.dumps({"distributed": {"nanny": {"pre-spawn-environ": v}}}))' > .venv/etc/dask/sdpa.yaml
	@touch $@

$(BROWSER_READY): $(READY) requirements-page.lock Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-page.lock
	cd .venv && npm pack --silent $(subst core-,core@,$(AXE))
	@$(PY) -c 'import hashlib, sys; got = hashlib.sha256(open(".venv/$(AXE).tgz", "rb").read()).hexdigest(); got == "$(AXE_SHA256)" or sys.exit("$(AXE).tgz: expected SHA-256 $(AXE_SHA256), got " + got)'
	tar -xzf .venv/$(AXE).tgz -C .venv package/axe.min.js
	@touch $@

$(NOTEBOOKS_READY): $(READY) requirements-notebooks.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-notebooks.lock
	@touch $@
