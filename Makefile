# All work goes through these targets. Each one installs its requirements first.
PYTHON ?= python3
PYTHONS := 3.11 3.12 3.13
VENV := .venv
BIN := $(VENV)/bin
# Number of fault runs of a night, of objects of a fuzz, and hours of fault runs in worlds.
RUNS ?= 2000
OBJECTS ?= 10000
HOURS ?= 8
# Workers for tests that need servers. These wait for a third of the time, so three workers keep two cores busy.
WORKERS ?= 3
# Tests that need no cluster are spread over all cores.
PURE := tests/unit tests/property tests/contract tests/model tests/world
SPREAD := --numprocesses=auto --dist=worksteal
# A worker that dies is not replaced: pytest-xdist may then wait for its files for ever.
IN_FILES := --numprocesses=$(WORKERS) --dist=loadfile --max-worker-restart=0
# make test leaves out the tests marked as nightly, and takes a sample of each large suite. make test-all runs all.
SELECTED := $(if $(TIDELOCK_ALL),,-m "not nightly")
export PYTHONPATH := operator:hack
# An operator starts in half the time with compiled modules, and tests start hundreds of them.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv test test-all chromium axe web-view unit servers durations screenshots test-peers test-e2e test-pythons fmt verify demo up down status lock bench-lock bench-throughput bench-devices bench-cycle bench-admission bench-contend bench-failover demo-water bench-refresh bench-tenants bench-dispatch benches figures audit sbom soak fuzz faults-nightly nights sweep-cel first-steps plugin release docs clean

help: ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

venv: $(VENV)/.installed ## Create the virtual environment from the lock file

$(VENV)/.installed: requirements-dev.lock pyproject.toml
	hack/make-venv $(PYTHON) $(VENV)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: venv ## Play the story of a reservation on a real control plane. KUBELETS=1: on real kubelets
	$(BIN)/python -m demo $(if $(KUBELETS),--kubelets)

demo-water: venv ## Place pods under load by requests and by measured use, on a real control plane, and draw a picture
	mkdir -p build
	$(BIN)/python -m bench.water --plot build/water-live.png

test: venv chromium verify unit servers ## Install the requirements, run all checks, and the tests of every change

test-all: ## Run all checks and all tests, as every night and before a release. Takes half an hour
	TIDELOCK_ALL=1 $(MAKE) test test-pythons

chromium: axe ## Install the browser for tests of the web view, where that is possible
	hack/chromium

axe: venv ## Fetch axe-core for tests of the web view, where that is possible
	$(BIN)/python -m webview.axe

web-view: venv chromium ## Write the pictures of the web view to docs/images
	$(BIN)/python -m webview docs/images

unit: venv ## Run only the tests that need no cluster
	$(BIN)/python -m pytest $(SPREAD) $(SELECTED) $(PURE)

servers: venv chromium ## Run only the tests that need servers: a cluster, a browser, the package index. WORKERS=3
	$(BIN)/python -m pytest $(IN_FILES) $(SELECTED) --durations=20 --junitxml=build/servers.xml $(addprefix --ignore=,$(PURE) tests/peers tests/e2e)

durations: venv ## Write the seconds of each file with servers, as the last make servers took them, to tests/durations.json
	PYTHONPATH=operator:hack:tests $(BIN)/python -m balancing build/servers.xml

test-peers: venv ## Build the real programs of other projects, and run the tests with them. Takes half an hour at first
	$(BIN)/python -m pytest --durations=20 tests/peers

test-e2e: venv ## Install, disturb, upgrade and remove an installation on real kubelets. TIDELOCK_KUBECONFIG=file of a cluster of its own
	@test -n "$(TIDELOCK_KUBECONFIG)" || { echo "TIDELOCK_KUBECONFIG must name a cluster in Docker, as hack/kind/up makes one: see tests/README.md" >&2; exit 1; }
	$(BIN)/python -m pytest --capture=no --durations=20 tests/e2e

test-pythons: ## Run tests of the code that uses most of Python with each other available version
	PYTHON=$(PYTHON) hack/test-pythons $(PYTHONS)

screenshots: venv ## Update the expected screens of kubectl tidelock in tests, and their pictures in docs
	TIDELOCK_SNAPSHOTS=write $(BIN)/python -m pytest -q tests/unit/cli

fmt: venv ## Fix and format the Python code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

verify: venv ## Check style, types, layers and generated files
	hack/verify-all

up: venv ## Start a development control plane. KUBELETS=2: with two nodes of real kubelets
	$(BIN)/python -m devcluster up $(if $(KUBELETS),--kubelets=$(KUBELETS))

down: venv ## Stop the development control plane
	$(BIN)/python -m devcluster down

status: venv ## Show the development control plane
	$(BIN)/python -m devcluster status

bench-lock: venv ## Measure latency and throughput of reservations, beside a bare Kopf handler and a writer that decides nothing
	$(BIN)/python -m bench.lock

bench-tenants: venv ## Measure the latency of a reservation beside 10,000 of another namespace
	$(BIN)/python -m bench.tenants

bench-throughput: venv ## Measure bound pods per second, beside kube-scheduler, with etcd that does not write to disk
	mkdir -p build
	$(BIN)/python -m bench.throughput --json build/throughput.json --plot build/throughput.png

bench-devices: venv ## Measure bound pods per second with resource claims, beside kube-scheduler
	$(BIN)/python -m bench.devices

bench-cycle: venv ## Measure decisions per second, without an API server
	$(BIN)/python -m bench.cycle

bench-refresh: venv ## Measure the cost of measuring and annotating 5,000 nodes and 2,000 Deployments
	$(BIN)/python -m bench.refresh

bench-admission: venv ## Measure the duration of a binding's review
	$(BIN)/python -m bench.admission

bench-contend: venv ## Check that the last capacity is given once, when many claim it in four ways at once
	$(BIN)/python -m bench.contend

bench-failover: venv ## Measure the time without bindings after a leader is killed, stopped or asked to end
	$(BIN)/python -m bench.failover

bench-dispatch: venv ## Measure the benefit of reservations to managers that race for GPUs. TRACES=folder of openb's files
	$(BIN)/python -m bench.dispatch --traces $(TRACES)

# A fault in one benchmark does not keep the figures of the others out of the docs.
benches: venv ## Run all benchmarks on an idle machine, and update the docs. BENCHES="lock cycle" TRACES=folder of openb's files
	$(BIN)/python -m bench $(if $(TRACES),--traces $(TRACES)) $(BENCHES) || failed=1; \
	hack/update-figures && exit $${failed:-0}

figures: venv ## Write the figures of docs/figures into the docs
	hack/update-figures

lock: venv ## Update the lock files from pyproject.toml
	hack/update-locks

audit: venv ## Check pins, hashes and known vulnerabilities of the locked dependencies
	hack/verify-dependencies

sbom: venv ## Write the image's bill of materials to build/tidelock.cdx.json (CycloneDX)
	$(BIN)/python -m sbom

release: venv ## Write the files of a release to build/release: wheel, chart, manifests, image context, notes, checksums
	$(BIN)/python -m release

sweep-cel: venv ## Call the functions of CEL with all hostile values, and report each that takes longer than its cost says
	TIDELOCK_CEL_SWEEP=all $(BIN)/python -m pytest $(SPREAD) --timeout=3600 tests/property/test_cel_costs.py

soak: venv ## Run an hour of churn, and report losses, leftovers and growth
	$(BIN)/python -m soak

fuzz: venv ## Send hostile objects of every kind, and report crashes, stalls and wrong answers. OBJECTS=10000 SEED=...
	$(BIN)/python -m fuzz --objects $(OBJECTS) $(if $(SEED),--seed $(SEED))

faults-nightly: venv ## Run fault tests with new random seeds, and print the seeds. RUNS=2000
	@first=$$($(BIN)/python -c 'import secrets; print(10**6 + secrets.randbelow(10**9))') && \
	export TIDELOCK_FAULT_SEEDS=$$first-$$((first + $(RUNS) - 1)) && \
	export TIDELOCK_OUTAGE_SEEDS=$$first-$$((first + $(RUNS) / 20)) && \
	echo "TIDELOCK_FAULT_SEEDS=$$TIDELOCK_FAULT_SEEDS TIDELOCK_OUTAGE_SEEDS=$$TIDELOCK_OUTAGE_SEEDS" && \
	$(BIN)/python -m pytest tests/faults/test_faults.py tests/faults/test_outages.py

nights: venv ## Run fault tests with new random seeds in worlds, and shrink and keep each failure. HOURS=8
	PYTHONPATH=operator:hack:tests $(BIN)/python -m faults --shrink --hours $(HOURS)

plugin: venv ## Build kubectl tidelock as a single file and for krew, in build/plugin. URL=https://... of the archive's folder
	$(BIN)/python -m plugin $(if $(URL),--url $(URL))

first-steps: venv ## Measure the time from a clone to the demo's end, a reservation and the web view
	PYTHONPATH=operator:hack:tests $(BIN)/python -m firststeps

docs: venv ## Build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

clean: ## Remove the virtual environment and all build results
	rm -rf $(VENV) build dist *.egg-info operator/*.egg-info
