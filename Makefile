# The only door: every command of this repository. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that environments are made with; the engine's lock needs CPython 3.11.
PYTHON ?= $(shell for p in python3.11 python3; do \
	"$$p" -c "" 2>/dev/null && echo "$$p" && break; done)
# The pull request that the evidence is for.
REPOSITORY ?= local/k3-eval
PULL_REQUEST ?= 1
# Full SHA of the commit under evaluation; empty: the one that is checked out here.
COMMIT ?=
# Base URL of an OpenAI-compatible server that already runs; empty: boot engines from the locks.
ENGINE_URL ?=
# Port of the registry on loopback.
REGISTRY_PORT ?= 8765
# Folder that offers wheels beside the package index; empty: only the index.
WHEELS ?=
# KEEP=1 leaves the registry of `make eval` running.
KEEP ?=
# Which image: cpu, gpu, registry, store or database.
FLAVOUR ?= cpu
# Folder for what an evaluation in an image leaves, and folder of the model of the gpu flavour.
RESULTS ?= results
MODEL ?=
# More words for `make image-run`, for example ARGS="--tier smoke".
ARGS ?= --tier smoke
# LOCKS_ONLY=1 pins the locks again and leaves the Debian packages as they are.
LOCKS_ONLY ?=
# Parts of `make soak`, for example "pages uploads"; empty: all of them.
PARTS ?=
# UPGRADE=1 lets `make lock` take newer versions.
UPGRADE ?=

HOUSE = "$(PYTHON)" tools/house.py
INSTALL = $(HOUSE) install --wheels "$(WHEELS)"
DEV = .k3eval/env/dev/bin
KERNELS = .k3eval/env/kernels/bin
IMAGE = PYTHONPATH=image/src:runner/src "$(PYTHON)" -B -m k3image
# Said instead of the shell's "not found".
INSTALLED = @test -x $(DEV)/python && test -x $(KERNELS)/python || { \
	echo "The environments of the tests are not installed. Next: make test-env" >&2; exit 5; }
# Two processes compile; what was compiled from the same sources before is not compiled again.
COMPILED = --jobs 2 --cache .k3eval/cache/kernels
# Byte code makes a second start fast; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help eval serve serve-full test lint format types contracts schema schema-check test-house test-unit \
	test-image test-kernels test-engine test-env test-pages kernels mutants error-rates test-mutations \
	soak lock image image-check compose-check image-run image-inputs client-cost bench-agreement known-answers clean

##@ Use
help: ## List every target with a sentence.
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

eval: ## Install what is missing, evaluate with the smoke tier, submit, print verdict and page.
	@$(HOUSE) eval --repository "$(REPOSITORY)" --pull-request "$(PULL_REQUEST)" \
		--commit "$(COMMIT)" --engine-url "$(ENGINE_URL)" --registry-port "$(REGISTRY_PORT)" \
		--wheels "$(WHEELS)" --keep "$(KEEP)"

serve: ## Run the registry on loopback until Ctrl-C, to look at submissions again.
	@$(HOUSE) serve --registry-port "$(REGISTRY_PORT)" --wheels "$(WHEELS)"

serve-full: ## Run the registry on PostgreSQL and an object store behind a proxy, until Ctrl-C.
	@$(HOUSE) serve-full --registry-port "$(REGISTRY_PORT)" --wheels "$(WHEELS)"

##@ Check
test: ## Run everything that CI runs, and print the time of each part.
	@$(HOUSE) parts test-env lint types contracts schema-check test-house test-unit test-image \
		test-kernels test-engine \
		"PYTHON=$(PYTHON)" "WHEELS=$(WHEELS)" --beside test-image

test-env: ## Install the environments that the other parts of the tests need.
	@$(INSTALL) dev kernels engine referee registry registry-full services probes

lint: ## Check style and format of Python, shell and YAML files.
	$(INSTALLED)
	$(DEV)/ruff check .
	$(DEV)/ruff format --check .
	$(DEV)/shellcheck .ci/run image/clean-base.sh image/examples/slurm.sbatch
	$(DEV)/hadolint image/Dockerfile
	$(DEV)/yamllint --strict compose.yaml image/examples/kubernetes.yaml \
		image/examples/kubernetes-several-nodes.yaml

format: ## Rewrite Python files in the one format, and fix what can be fixed safely.
	$(INSTALLED)
	$(DEV)/ruff format .
	$(DEV)/ruff check --fix .

types: ## Check types of all packages and their tests, strictly.
	$(INSTALLED)
	$(DEV)/mypy bundle runner server k3decode tools tests image

contracts: ## Check which package and module may import which.
	$(INSTALLED)
	$(DEV)/lint-imports --no-cache

schema: ## Write the JSON Schemas of all records and the description of the API.
	$(INSTALLED)
	$(DEV)/python -m k3bundle.schema_export bundle/schema
	$(DEV)/python -m k3server.openapi_export server/openapi.json

schema-check: ## Check that schemas and API description are what records and routes say.
	$(INSTALLED)
	$(DEV)/python -m k3bundle.schema_export bundle/schema --check
	$(DEV)/python -m k3server.openapi_export server/openapi.json --check

test-house: ## Test what crosses packages: architecture, documentation, contracts, installation.
	$(INSTALLED)
	$(DEV)/python -m pytest -m "not engine" tests

test-unit: ## Test each package on its own.
	$(INSTALLED)
	@mkdir -p .k3eval/log
	@echo "Beside each other: these, and k3decode in .k3eval/log/test-unit-k3decode.log."
	@$(KERNELS)/python -m pytest -c k3decode/pyproject.toml -m "not engine and not compiled" k3decode \
		> .k3eval/log/test-unit-k3decode.log 2>&1 & other=$$!; \
	$(DEV)/python -m pytest -m "not engine" bundle runner server image; first=$$?; \
	wait $$other; second=$$?; cat .k3eval/log/test-unit-k3decode.log; \
	exit $$((first > second ? first : second))

# Most of test-unit is waiting, so `make test` runs this beside it.
test-image: ## Build the cpu image twice from nothing, compare, run the smoke tier inside; needs root.
	@$(MAKE) image-check FLAVOUR=cpu

test-kernels: ## Compile some variants of every kernel for each GPU, export and load one; no GPU needed.
	$(INSTALLED)
	$(KERNELS)/python -m k3decode.compile_report --typical $(COMPILED)
	$(KERNELS)/python -m pytest -c k3decode/pyproject.toml -m compiled k3decode

test-engine: ## Test with a real engine: served tokens, step counts, planted defects.
	$(INSTALLED)
	K3EVAL_ENGINE_PYTHON=$(CURDIR)/.k3eval/env/engine/bin/python \
		$(KERNELS)/python -m pytest -c k3decode/pyproject.toml -m engine k3decode
	$(DEV)/python -m pytest -m engine tests

test-pages: ## Look at every page in a real browser, judged by axe-core; needs Chromium.
	$(INSTALLED)
	$(DEV)/python -m k3server_testing.probes.pages --commit "$$(git rev-parse HEAD)" \
		--out server/benchmarks/pages.json

test-mutations: ## Verify ten thousand mutated bundles, of which the tests verify a share.
	$(INSTALLED)
	$(DEV)/python -m k3bundle_testing.mutations 10000

##@ Kernels
kernels: ## Compile every variant of every kernel for each GPU; print registers, spills, instructions.
	$(INSTALLED)
	$(KERNELS)/python -m k3decode.compile_report $(COMPILED)

mutants: ## Break device code on purpose; the cases must notice. Without a GPU: the last results.
	$(INSTALLED)
	$(KERNELS)/python -m k3decode.mutants --commit "$$(git rev-parse HEAD)" \
		--keep k3decode/benchmarks/mutants.jsonl

##@ Images
image: ## Build one image (FLAVOUR=cpu, gpu, registry, store, database) from the commit that is checked out.
	@$(INSTALL) uv
	@$(IMAGE) build --flavour "$(FLAVOUR)" --python .k3eval/env/uv/bin/python

image-check: ## Build FLAVOUR twice from nothing, compare; the cpu flavour is also run inside and verified.
	@$(INSTALL) uv
	@$(IMAGE) check --flavour "$(FLAVOUR)" --python .k3eval/env/uv/bin/python

compose-check: ## Bring compose.yaml up from built images, run the registry's tests on it, take it down.
	$(INSTALLED)
	@$(IMAGE) compose --python $(DEV)/python

image-run: ## Run the image that was built: read-only, without a network, results to RESULTS.
	@$(IMAGE) run --flavour "$(FLAVOUR)" --results "$(RESULTS)" $(if $(MODEL),--model "$(MODEL)") \
		-- $(ARGS)

image-inputs: ## Pin the inputs of the images again: Debian's packages, the gpu locks, all digests.
	@$(INSTALL) uv
	@$(IMAGE) pin --uv .k3eval/env/uv/bin/uv $(if $(LOCKS_ONLY),--locks-only)

##@ Keep
client-cost: ## Measure what the load client costs, beside vllm bench serve; a quiet machine helps.
	$(INSTALLED)
	$(DEV)/python -m k3runner_testing.measurements.client_cost \
		--engine-python .k3eval/env/engine/bin/python --out runner/benchmarks/client-cost.json

bench-agreement: ## Measure whether the load client and vllm bench serve agree on a real engine.
	$(INSTALLED)
	$(DEV)/python -m k3runner_testing.measurements.agreement \
		--engine-python .k3eval/env/engine/bin/python --out runner/benchmarks/agreement.json

known-answers: ## Evaluate a candidate that is slowed down, and one that is the baseline, on a real engine.
	$(INSTALLED)
	$(DEV)/python -m k3runner_testing.measurements.known_answers \
		--engine-python .k3eval/env/engine/bin/python --out runner/benchmarks/known-answers.json

error-rates: ## Write bundle/ERROR_RATES.md: how often a verdict on speed is wrong.
	$(INSTALLED)
	$(DEV)/python -m k3bundle_testing.error_rates bundle/ERROR_RATES.md

soak: ## Load and kill a real registry, and write what came of it: two hours; PARTS= some of it.
	$(INSTALLED)
	$(DEV)/python -m k3server_testing.soak --commit "$$(git rev-parse HEAD)" \
		--out server/benchmarks/soak.json $(foreach part,$(PARTS),--only $(part))
	$(if $(PARTS),:,$(DEV)/python -m k3server_testing.probes.api_cases \
		--commit "$$(git rev-parse HEAD)" --out server/benchmarks/api-cases.json)

lock: ## Make all locks under requirements/ again; UPGRADE=1 takes newer versions.
	@$(HOUSE) lock --wheels "$(WHEELS)" --upgrade "$(UPGRADE)"

clean: ## Remove everything that was made here: environments, runs, the registry's data.
	@$(HOUSE) clean
