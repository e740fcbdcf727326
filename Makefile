# The commands a person types. CONFIG=, RESULTS= and JOBS= go with the commands about sweeps.

CONFIG ?= config.yaml
PYTHON ?= python3
OPTIONS = --config "$(CONFIG)" $(if $(RESULTS),--results "$(RESULTS)")
RUN_OPTIONS = $(OPTIONS) $(if $(JOBS),--jobs $(JOBS))
PY = .venv/bin/python
SUITE = $(PY) -m experiments
READY = .venv/ready
# The browser that tests the page, and axe-core, which looks for what hinders people: its version and archive.
CHROMIUM ?= /usr/bin/chromium
BROWSER_READY = .venv/browser-ready
AXE = axe-core-4.14.1
AXE_SHA256 = e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

.DEFAULT_GOAL = help
.PHONY: all quick results figures check page plan prune walk test test-page test-coverage test-faults test-edits test-recipes calibration lint statements cost bench readme lock clean help

all: $(READY) ## environment, every sweep, every figure, the page, check
	@$(SUITE) all $(RUN_OPTIONS)

quick: ## the same on a small config, for a first look in seconds
	@$(MAKE) --no-print-directory all CONFIG=quick.yaml

results: $(READY) ## measure every sweep and write its table
	@$(SUITE) run $(RUN_OPTIONS)

figures: $(READY) ## draw every figure from its tables
	@$(SUITE) draw $(OPTIONS)

check: $(READY) ## compare tables with config and checksums, and measured values with exact ones
	@$(SUITE) check $(OPTIONS)

page: $(READY) ## write index.html among the results
	@$(SUITE) page $(OPTIONS)

plan: $(READY) ## what would run, what is measured already, how long and how much memory it takes
	@$(SUITE) plan $(RUN_OPTIONS)

prune: $(READY) ## remove tables and figures of sweeps that the config no longer has
	@$(SUITE) prune $(OPTIONS)

# Q=, K=, V=, MASK=, SCALING= and OUT= count on the command line only: V=1 in the environment is somebody else's.
lower = $(shell echo $(1) | tr A-Z a-z)
given = $(if $(filter command,$(firstword $(origin $(1)))),--$(call lower,$(1)) "$($(1))")
walk: $(READY) ## a worked example, EXAMPLE=dog-bites-man, or your own Q=q.csv K=k.csv V=v.csv; else a list
	@$(SUITE) walk $(if $(EXAMPLE),"$(EXAMPLE)") $(foreach one,Q K V MASK SCALING OUT,$(call given,$(one)))

test: $(READY) ## the tests (without the slow ones), one process per core or JOBS=N
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal

test-page: $(BROWSER_READY) ## the page of results/ in a browser (CHROMIUM=/usr/bin/chromium; needs npm once)
	@test -x "$(CHROMIUM)" || { echo "expected a Chromium at $(CHROMIUM): give another one with CHROMIUM="; exit 1; }
	@CHROMIUM="$(CHROMIUM)" $(PY) -m pytest -m page

test-coverage: $(READY) ## slow: the coverage of 95% intervals, p-values, exact deviations over their whole range
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m slow

test-faults: $(READY) ## slow: kills, damage and hostile configs, on real processes
	@$(PY) -m pytest -n $(or $(JOBS),auto) --dist worksteal -m faults

test-edits: $(READY) ## slow: edit config.yaml in many ways, then make all and the tests, in a copy of this folder
	@$(PY) -m pytest -m edits

test-recipes: $(READY) ## slow: perform the recipes of CONTRIBUTING.md, in copies of this folder
	@$(PY) -m pytest -n $(or $(JOBS),auto) -m recipes

calibration: $(READY) ## slow: false alarms of check, faults that it misses, coverage of intervals; FULL=1: all configs
	@$(SUITE) calibrate $(if $(FULL),--full)

lint: $(READY) ## ruff (style and format) and mypy (types)
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

statements: $(READY) ## published statements: how many are right, and which are wrong or misleading, the gravest first
	@$(SUITE) statements $(if $(JOBS),--jobs $(JOBS))

cost: $(READY) ## time and memory of attention on this machine, and how they grow (results/cost.csv)
	@$(SUITE) cost

bench: $(READY) ## minutes: the suite's speed beside other ways to measure (results/benchmarks.csv)
	@$(SUITE) bench

readme: $(READY) ## rewrite the generated numbers of README.md and docs/ from results/
	@$(SUITE) readme

lock: ## resolve requirements.lock and requirements-page.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --all-extras --upgrade pyproject.toml --output-file requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --group page --upgrade --constraint requirements.lock \
	  --output-file requirements-page.lock

clean: ## remove what can be rebuilt and is not committed
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis results/quick results/walk results/.cells
	find results \( -name .lock -o -name .made.json -o -name manifest.json \) -delete
	find sdpa experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find results -name '*.svg' -exec sh -c 'test ! -f "$${1%.svg}.txt" || rm "$$1"' _ {} \;

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "  CONFIG=FILE RESULTS=DIR JOBS=N go with all, results, figures, check, page, plan and prune; now CONFIG=$(CONFIG)"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) or sys.exit("expected Python 3.11 or later, got %d.%d: give another one with PYTHON=" % v)'
	$(PYTHON) -m venv --clear .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(BROWSER_READY): $(READY) requirements-page.lock Makefile
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-page.lock
	cd .venv && npm pack --silent $(subst core-,core@,$(AXE))
	@$(PY) -c 'import hashlib, sys; got = hashlib.sha256(open(".venv/$(AXE).tgz", "rb").read()).hexdigest(); got == "$(AXE_SHA256)" or sys.exit("$(AXE).tgz: expected SHA-256 $(AXE_SHA256), got " + got)'
	tar -xzf .venv/$(AXE).tgz -C .venv package/axe.min.js
	@touch $@
