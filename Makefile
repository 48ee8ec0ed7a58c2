# Fairlead. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# An environment keeps its interpreter until another one is named, as in `make test PYTHON=python3.13`.
NAMED := $(if $(filter-out file,$(origin PYTHON)),$(PYTHON))
SETUP := PYTHON=$(NAMED) VENV=$(VENV) tools/setup.sh
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: FORCE help setup packages run demo test test-fast test-full check faults bench bench-http bench-postgres bench-peers bench-simulator bench-dashboard screenshots policies picture fair-pictures sync-client import-graph pins clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(READY) ## make .venv with everything, in pinned versions

$(READY): requirements.txt pyproject.toml tools/setup.sh
	@$(SETUP) all
	@touch $@ $@-demo $@-server

$(READY)-%: requirements-%.txt pyproject.toml tools/setup.sh
	@$(SETUP) $*
	@touch $@

ifneq ($(shell $(SETUP) fits),yes)
$(READY) $(READY)-demo $(READY)-server: FORCE
endif
FORCE:

run: $(READY)-server ## serve HTTP with workers, on ./fairlead-data
	@$(BIN)/fairlead serve

demo: $(READY)-demo ## process sample documents of several customers and show who waited
	@$(BIN)/fairlead demo

packages: ## install the servers and the browser that tests start, where it may
	@tools/packages.sh

test: setup packages check ## the checks, and all tests but the longest; at most six minutes
	$(PYTEST) -m 'not full and not faults'

test-fast: setup ## tests that start no process, open no port and take no time; a minute at most
	$(PYTEST) -m 'not services and not slow and not full and not faults'

test-full: setup packages ## what `make test` leaves out, and more random examples
	$(PYTEST) -m '(full or hypothesis) and not faults' --hypothesis-profile=full

check: setup ## formatting, lint, types and the arrows between packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_sync_client.py --check

faults: setup packages ## longer tests that kill processes and fill disks
	$(BIN)/python -m pytest -m faults

bench: setup ## the speed of submission and claim, small and large
	$(BIN)/python -m bench

bench-http: setup ## the speed of uploads over HTTP
	$(BIN)/python -m bench.http

bench-postgres: setup ## the speed of the PostgreSQL store, on a server of its own
	$(BIN)/python -m bench.postgres

bench-peers: setup packages ## the speed beside other queues, in an environment of its own; 25 minutes
	$(BIN)/python -m bench.peers

bench-simulator: setup ## the simulator's speed beside a bare heap loop
	$(BIN)/python -m bench.simulator

bench-dashboard: setup ## what the dashboard costs with many customers and changes
	$(BIN)/python -m bench.dashboard

screenshots: setup ## take the pictures of the dashboard in docs/dashboard
	$(BIN)/python -m bench.screenshots

policies: setup ## classic, fifo and fair side by side, simulated and on real workers
	$(BIN)/python -m bench.policies
	$(BIN)/python -m bench.running

picture: setup ## run the demo and draw docs/demo.svg from its result
	$(BIN)/fairlead demo --picture docs/demo.svg

fair-pictures: setup ## draw the pictures of the fair policy in docs/fair
	$(BIN)/python -m bench.pictures

sync-client: setup ## write the sync client from the async one
	$(BIN)/python tools/generate_sync_client.py

pins: ## pin what pyproject.toml names; UPGRADE=--upgrade takes the newest versions
	@PYTHON=$(PYTHON) UPGRADE=$(UPGRADE) tools/pins.sh

.PHONY: import-graph
import-graph: ## draw the imports between packages into docs/discussion/architecture.md
	@$(PYTHON) tools/import_graph.py --write docs/discussion/architecture.md

clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .bench-peers .bench-readers demo-data
