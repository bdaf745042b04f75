SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN := local

# The Go modules, in the order of their dependencies; `make test MODULES=gateway` tests one alone.
MODULES ?= schemas schemas/kit gateway detector embedworker notifier deploy
# How long each fuzz test runs.
FUZZTIME ?= 10s
# A regular expression of the end-to-end tests that also run with the race detector. Default:
# those with much concurrency; E2E_RACE=. for all, which takes some minutes more.
E2E_RACE ?=
# Flags for `make run`, such as ARGS="--data-dir memory".
ARGS ?=
# How long `make soak` lasts.
SOAK ?= 30m
# Flags for `make chaos`.
CHAOS ?=
# The version of what is built; default: what Go reads from the repository.
VERSION ?=
# The revision, if the repository can't be read; and 1 for binaries without debug information.
REVISION ?=
STRIP ?=
# Parts and flags for `make bench`.
BENCH ?=

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 20

.PHONY: run
run: ## build bin/unloop, and run the whole system in one process
	@deploy/tools/build.sh bin deploy/unloop
	bin/unloop up $(ARGS)

.PHONY: build
build: ## build bin/unloop and a binary for each service
	@STRIP='$(STRIP)' VERSION='$(VERSION)' REVISION='$(REVISION)' deploy/tools/build.sh bin $(MODULES)

.PHONY: sbom
sbom: build ## write the bill of materials (CycloneDX) of each binary into dist/sbom
	GOWORK=off go -C deploy run ./images/sbom -out $(CURDIR)/dist/sbom -version '$(VERSION)' $(CURDIR)/bin/*

.PHONY: test
test: ## run all checks and tests except those of other targets; installs what they need
	@E2E_RACE='$(E2E_RACE)' deploy/tools/test.sh $(MODULES)

.PHONY: sdks
sdks: ## test the official Go SDKs and Traefik, which take some minutes to compile
	@deploy/tools/test.sh --sdks

.PHONY: lint
lint: ## check lint, formatting, tidy modules, repository rules and generated code
	@deploy/tools/test.sh --lint $(MODULES)

.PHONY: generate
generate: ## generate code from the .proto files
	@deploy/tools/generate.sh

.PHONY: bench
bench: ## run benchmarks; BENCH="-h" lists them
	@deploy/tools/tool.sh redis-server >/dev/null || echo "redis-server is not installed; its rows are left out"
	GOWORK=off go -C deploy run ./bench $(BENCH)

.PHONY: chaos
chaos: build ## break and upgrade a small cluster, and report what clients see; CHAOS="-rounds 10" takes longer, CHAOS=-rolling only upgrades
	UNLOOP_TEST_CHAOS='-unloop $(CURDIR)/bin/unloop $(CHAOS)' GOWORK=off go -C deploy test -count=1 -timeout 0 -v -run TestCluster ./chaos

.PHONY: compose
compose: ## build the images and run compose.yaml, if there is a Docker engine
	UNLOOP_TEST_ENGINE=1 GOWORK=off go -C deploy test -count=1 -timeout 60m -v -run UnderARealEngine ./images

.PHONY: soak
soak: build ## check for leaks of memory, goroutines and descriptors under light load, for SOAK (30m)
	UNLOOP_TEST_CHAOS='-unloop $(CURDIR)/bin/unloop -soak $(SOAK)' GOWORK=off go -C deploy test -count=1 -timeout 0 -v -run TestCluster ./chaos

.PHONY: clients
clients: ## run real agents into a loop, and compare docs/clients.md with what ends them
	UNLOOP_TEST_NODE_MODULES="$$(deploy/tools/tool.sh node-modules)" UNLOOP_TEST_CLIENT_PROGRAMS="$$(deploy/tools/tool.sh client-programs)" \
		GOWORK=off go -C deploy test -count=1 -timeout 15m -v ./clients

.PHONY: chart
chart: build ## render and check the Helm chart for many values, and run the processes that it describes
	GOWORK=off go -C deploy/tools/chart test -count=1 -timeout 30m ./...

.PHONY: images
images: ## build the binaries as images and releases do, and test compose.yaml and the release packages
	deploy/tools/tool.sh ruby >/dev/null || echo "ruby is not installed; the Homebrew formula is not tried"
	node=$$(deploy/tools/tool.sh node); UNLOOP_TEST_IMAGES=1 UNLOOP_TEST_RELEASE=1 UNLOOP_TEST_NODE=$$node \
		GOWORK=off go -C deploy test -vet=off -count=1 -timeout 30m ./images ./dist

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (10s)
	@FUZZTIME=$(FUZZTIME) deploy/tools/fuzz.sh $(MODULES)

.PHONY: cover
cover: ## measure the statement coverage of all tests together
	@deploy/tools/cover.sh dist/cover $(MODULES)

.PHONY: dist
dist: ## build a release into dist/release: archives, packages, a Homebrew formula, SDKs; VERSION=1.2.3
	@rm -rf dist/release
	GOWORK=off go -C deploy run ./dist -out $(CURDIR)/dist/release -version '$(VERSION)'

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities, where the database can be reached
	@deploy/tools/vulncheck.sh $(MODULES)
