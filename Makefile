# Everything goes through these targets; each installs what it needs first.
PYTHON ?= python3
PYTHONS := 3.11 3.12 3.13
VENV := .venv
BIN := $(VENV)/bin
# Fault runs of a night, and objects of a fuzz.
RUNS ?= 2000
OBJECTS ?= 10000
# Tests that need no cluster are spread over all cores; the others share servers, and wait most of the time, so that
# two lines of them fit on any machine.
PURE := tests/unit tests/property tests/contract tests/model
SPREAD := --numprocesses=auto --dist=worksteal
# A line that dies is not replaced: pytest-xdist may then wait for its files for ever.
TWO_LINES := --numprocesses=2 --dist=loadfile --max-worker-restart=0
export PYTHONPATH := operator:hack

.DEFAULT_GOAL := help
.PHONY: help venv test chromium web-view unit screenshots test-pythons fmt verify demo up down status lock bench-lock bench-throughput bench-cycle bench-admission bench-contend bench-failover demo-water bench-refresh bench-tenants bench-dispatch audit sbom soak fuzz faults-nightly first-steps docs clean

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

venv: $(VENV)/.installed ## Make the virtual environment from the lock file

$(VENV)/.installed: requirements-dev.lock pyproject.toml
	hack/make-venv $(PYTHON) $(VENV)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: venv ## Play the reservation story on a real control plane; KUBELETS=1: on real kubelets
	$(BIN)/python -m demo $(if $(KUBELETS),--kubelets)

demo-water: venv ## Play load on a real control plane, by requests and by measured use, and draw it
	mkdir -p build
	$(BIN)/python -m demo.water --plot build/water-live.png

test: venv chromium verify ## Install everything, check everything, run all tests
	$(BIN)/python -m pytest $(SPREAD) $(PURE)
	$(BIN)/python -m pytest $(TWO_LINES) --durations=20 $(addprefix --ignore=,$(PURE))

chromium: ## Install the browser that the web view is tested in, where that can be done
	hack/chromium

web-view: venv chromium ## Take the pictures of the web view in docs/images
	$(BIN)/python -m webview docs/images

unit: venv ## Only the tests that need no cluster
	$(BIN)/python -m pytest $(SPREAD) $(PURE)

test-pythons: ## Unit tests and contracts with each other Python that can be had
	PYTHON=$(PYTHON) hack/test-pythons $(PYTHONS)

screenshots: venv ## Renew the screens of kubectl tidelock that tests compare with, and their pictures in docs
	TIDELOCK_SNAPSHOTS=write $(BIN)/python -m pytest -q tests/unit/cli

fmt: venv ## Fix and format the Python code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

verify: venv ## Style, types, layers, generated files
	hack/verify-all

up: venv ## Start a development control plane; with real kubelets: KUBELETS=number of nodes
	$(BIN)/python -m devcluster up $(if $(KUBELETS),--kubelets=$(KUBELETS))

down: venv ## Stop the development control plane
	$(BIN)/python -m devcluster down

status: venv ## Show the development control plane
	$(BIN)/python -m devcluster status

bench-lock: venv ## Lock latency and throughput beside a bare Kopf handler and a writer that decides nothing
	$(BIN)/python -m bench.lock

bench-tenants: venv ## How fast a lock is beside 10,000 of another namespace
	$(BIN)/python -m bench.tenants

bench-throughput: venv ## Pods a second beside kube-scheduler, with etcd that does not write to the disk
	mkdir -p build
	$(BIN)/python -m bench.throughput --json build/throughput.json --plot build/throughput.png

bench-cycle: venv ## Decisions a second, without an API server
	$(BIN)/python -m bench.cycle

bench-refresh: venv ## What it costs to measure and annotate 5,000 nodes and 2,000 Deployments
	$(BIN)/python -m bench.refresh

bench-admission: venv ## How long the review of a binding takes
	$(BIN)/python -m bench.admission

bench-contend: venv ## Who gets the last room, of many that claim it in four ways at once
	$(BIN)/python -m bench.contend

bench-failover: venv ## How long nothing is bound when a leader is killed, stopped or asked to end
	$(BIN)/python -m bench.failover

bench-dispatch: venv ## What locks are worth to managers that race for GPUs: TRACES=folder with openb's files
	$(BIN)/python -m bench.dispatch --traces $(TRACES)

lock: venv ## Renew the lock files from pyproject.toml
	hack/update-locks

audit: venv ## Pins, hashes and known vulnerabilities of what is locked
	hack/verify-dependencies

sbom: venv ## Write what the image consists of to build/tidelock.cdx.json (CycloneDX)
	$(BIN)/python -m sbom

soak: venv ## An hour of churn: what is lost, left over or grows
	$(BIN)/python -m soak

fuzz: venv ## Hostile objects of every kind: what ends, stalls or deceives the operator; OBJECTS=10000 SEED=...
	$(BIN)/python -m fuzz --objects $(OBJECTS) $(if $(SEED),--seed $(SEED))

faults-nightly: venv ## Fault runs of seeds that nobody has played yet, which it names: RUNS=2000
	@first=$$($(BIN)/python -c 'import secrets; print(10**6 + secrets.randbelow(10**9))') && \
	export TIDELOCK_FAULT_SEEDS=$$first-$$((first + $(RUNS) - 1)) && \
	export TIDELOCK_OUTAGE_SEEDS=$$first-$$((first + $(RUNS) / 20)) && \
	echo "TIDELOCK_FAULT_SEEDS=$$TIDELOCK_FAULT_SEEDS TIDELOCK_OUTAGE_SEEDS=$$TIDELOCK_OUTAGE_SEEDS" && \
	$(BIN)/python -m pytest tests/faults/test_faults.py tests/faults/test_outages.py

first-steps: venv ## How long it takes from a clone to the demo's end, a lock and the web view
	PYTHONPATH=operator:hack:tests $(BIN)/python -m firststeps

docs: venv ## Write the documentation as a site to build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

clean: ## Remove what the build made
	rm -rf $(VENV) build dist *.egg-info operator/*.egg-info
