# The commands that users type. The commands about sweeps take CONFIG=, RESULTS= and JOBS=.

CONFIG ?= config.yaml
PYTHON ?= python3
OPTIONS = --config "$(CONFIG)" $(if $(RESULTS),--results "$(RESULTS)")
CLUSTER = $(if $(SCHEDULER),--scheduler "$(SCHEDULER)") $(if $(SCHEDULER_FILE),--scheduler-file "$(SCHEDULER_FILE)")
RUN_OPTIONS = $(OPTIONS) $(if $(JOBS),--jobs $(JOBS)) $(CLUSTER)
PY = .venv/bin/python
SUITE = $(PY) -m experiments
READY = .venv/ready
CLUSTER_READY = .venv/cluster-ready
CAN_RUN = $(READY) $(if $(strip $(CLUSTER)),$(CLUSTER_READY))
# The browser that tests the page; the version and archive of axe-core, which finds accessibility problems.
CHROMIUM ?= /usr/bin/chromium
BROWSER_READY = .venv/browser-ready
AXE = axe-core-4.14.1
AXE_SHA256 = e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

.DEFAULT_GOAL = help
.PHONY: all quick results figures check page plan prune walk test test-page test-coverage test-faults test-edits test-cluster test-recipes cluster calibration lint statements cost bench readme lock clean help

all: $(CAN_RUN) ## set up the environment, measure every sweep, draw every figure, check, write the page
	@$(SUITE) all $(RUN_OPTIONS)

quick: ## run make all on quick.yaml, a small config: a first look in less than a minute
	@$(MAKE) --no-print-directory all CONFIG=quick.yaml

results: $(CAN_RUN) ## measure every sweep and write its table
	@$(SUITE) run $(RUN_OPTIONS)

figures: $(READY) ## draw every figure from its tables
	@$(SUITE) draw $(OPTIONS)

check: $(READY) ## compare tables with the config and their checksums, and measured values with exact ones
	@$(SUITE) check $(OPTIONS)

page: $(READY) ## write index.html into the results folder
	@$(SUITE) page $(OPTIONS)

plan: $(CAN_RUN) ## show what would run, what is already measured, and the time and memory a run takes
	@$(SUITE) plan $(RUN_OPTIONS)

prune: $(READY) ## remove tables and figures of sweeps that the config no longer has
	@$(SUITE) prune $(OPTIONS)

# Q=, K=, V=, MASK=, SCALING= and OUT= count on the command line only: other programs may set V=1 in the environment.
lower = $(shell echo $(1) | tr A-Z a-z)
given = $(if $(filter command,$(firstword $(origin $(1)))),--$(call lower,$(1)) "$($(1))")
walk: $(READY) ## list the worked examples, print one (EXAMPLE=dog-bites-man), or use your own matrices (Q=q.csv K=k.csv V=v.csv)
	@$(SUITE) walk $(if $(EXAMPLE),"$(EXAMPLE)") $(foreach one,Q K V MASK SCALING OUT,$(call given,$(one)))

test: $(READY) ## run all tests except the slow ones, with one process per core or JOBS=N
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal

test-page: $(BROWSER_READY) ## test the page of results/ in a browser (CHROMIUM=/usr/bin/chromium; needs npm once)
	@test -x "$(CHROMIUM)" || { echo "found no Chromium at $(CHROMIUM); set its path with CHROMIUM="; exit 1; }
	@CHROMIUM="$(CHROMIUM)" $(PY) -m pytest -m page

test-coverage: $(READY) ## slow: test coverage of 95% intervals, p-values, and exact standard deviations over their whole range
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m slow

test-faults: $(READY) ## slow: test kills, damaged files and hostile configs on real processes
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m faults

test-edits: $(READY) ## slow: edit config.yaml in many ways in a copy of this folder, then run make all and the tests there
	@$(PY) -m pytest -m edits

test-cluster: $(CLUSTER_READY) ## slow: test runs on a Dask cluster, with kills and wrong workers, on real processes
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m cluster

test-recipes: $(READY) ## slow: follow the recipes of CONTRIBUTING.md in copies of this folder
	@$(PY) -m pytest -n $(or $(JOBS),auto) -m recipes

cluster: $(CLUSTER_READY) ## install Dask, for runs with SCHEDULER=tcp://HOST:8786; see docs/cluster.md

calibration: $(READY) ## slow: measure false alarms and missed faults of the check, and coverage of intervals (FULL=1 for all configs)
	@$(SUITE) calibrate $(if $(FULL),--full)

lint: $(READY) ## run ruff (style and format) and mypy (types)
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

statements: $(READY) ## count the published statements that are right, and list wrong and misleading ones, gravest first
	@$(SUITE) statements $(if $(JOBS),--jobs $(JOBS))

cost: $(READY) ## measure the time and memory of attention on this machine, and how they grow (results/benchmarks/cost.csv)
	@$(SUITE) cost

bench: $(READY) ## slow: compare the suite's speed with that of other ways to measure (results/benchmarks/speed.csv)
	@$(SUITE) bench

readme: $(READY) ## rewrite the generated parts of README.md and docs/ from results/
	@$(SUITE) readme

lock: ## resolve the three requirements*.lock files from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --extra suite --extra dev --upgrade pyproject.toml \
	  --output-file requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --extra suite --extra cluster --upgrade pyproject.toml \
	  --constraint requirements.lock --output-file requirements-cluster.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group page --upgrade --constraint requirements.lock \
	  --output-file requirements-page.lock

clean: ## remove everything that is not committed and can be rebuilt
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis results/quick results/walk results/.cells
	find results \( -name .lock -o -name .made.json -o -name manifest.json \) -delete
	find sdpa experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find results -name '*.svg' -exec sh -c 'test ! -f "$${1%.svg}.txt" || rm "$$1"' _ {} \;

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "  all, results, figures, check, page, plan and prune accept CONFIG=FILE (now $(CONFIG)) and RESULTS=DIR;"
	@echo "  all, results, plan and statements accept JOBS=N, the number of worker processes"
	@echo "  all, results and plan also accept SCHEDULER=ADDRESS or SCHEDULER_FILE=FILE, for a Dask cluster"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) or sys.exit("expected Python 3.11 or later, got %d.%d; choose another with PYTHON=" % v)'
	$(PYTHON) -m venv --clear .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(CLUSTER_READY): $(READY) requirements-cluster.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-cluster.lock
	@touch $@

$(BROWSER_READY): $(READY) requirements-page.lock Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-page.lock
	cd .venv && npm pack --silent $(subst core-,core@,$(AXE))
	@$(PY) -c 'import hashlib, sys; got = hashlib.sha256(open(".venv/$(AXE).tgz", "rb").read()).hexdigest(); got == "$(AXE_SHA256)" or sys.exit("$(AXE).tgz: expected SHA-256 $(AXE_SHA256), got " + got)'
	tar -xzf .venv/$(AXE).tgz -C .venv package/axe.min.js
	@touch $@
