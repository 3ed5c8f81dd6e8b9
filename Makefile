# ax. `make` says what there is to make.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Static programs, for images that hold nothing else.
TARGET := $(shell uname -m)-unknown-linux-gnu
RELEASE := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/release
IMAGE_LIMIT := 20000000

STAGE := scripts/stage
CLUSTER := e2e/cluster/cluster
SHELL_SCRIPTS = $(shell grep -rlE '^\#!/usr/bin/env bash|^\# shellcheck shell=bash' .ci e2e scripts)
# Tests of tests/ that need no cluster, a control plane, a whole cluster.
UNIT_TESTS := architecture plugin schedule sim worker
INTEGRATION_TESTS := integration lease
E2E_TESTS := e2e

.PHONY: help
help: ## Say what there is to make.
	@echo "make TARGET, where TARGET is"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "KUBECONFIG=FILE: demo, integration and e2e use that cluster instead of starting one."

.PHONY: demo demo-down
demo: ## Build ax, start a cluster on this machine, install ax, run the samples and watch them end.
	@e2e/demo.sh
demo-down: ## Take down what demo left running.
	@e2e/demo.sh down

.PHONY: test
test: ## Run everything CI runs: lint, unit, image, integration, e2e.
	@scripts/test

.PHONY: lint tools
lint: tools ## Check format, lints, shell scripts, generated files, licenses and sources of dependencies.
	@$(STAGE) "lint: format" "cargo fmt" cargo fmt --all --check
	@$(STAGE) "lint: shell" "mend what shellcheck names" scripts/shellcheck $(SHELL_SCRIPTS)
	@$(STAGE) "lint: clippy" "mend what clippy names; its rules are in Cargo.toml and clippy.toml" \
		cargo clippy --locked --all-targets --quiet -- -D warnings
	@$(STAGE) "lint: CRDs are up to date" "make crds, and commit" scripts/crds-current
	@$(STAGE) "lint: dependencies" "deny.toml says what is allowed" \
		"$$(scripts/tools cargo-deny)" --locked check --hide-inclusion-graph bans licenses sources
tools: ## Install what is needed beside Rust and Go: shellcheck, openssl (as root), cargo-deny (built once).
	@$(STAGE) "tools" "see what was said above; they come from Debian and crates.io" scripts/tools

.PHONY: unit integration e2e fuzz bench bench-wheel bench-trigger
unit: ## Run the tests that need no cluster.
	@$(STAGE) "unit: build" "mend what the compiler names" \
		cargo test --locked --quiet --no-run --lib --bins $(UNIT_TESTS:%=--test %)
	@$(STAGE) "unit" "make unit runs them alone" cargo test --locked --lib --bins $(UNIT_TESTS:%=--test %)
	@$(STAGE) "unit: fuzz" "add the input it prints to tests/corpus, and mend what it breaks" \
		cargo run --locked --quiet --example fuzz
integration: ## Run the tests against a real control plane (API server, etcd, controllers).
	@$(STAGE) "integration: build" "mend what the compiler names" \
		cargo test --locked --quiet --no-run --bins $(INTEGRATION_TESTS:%=--test %)
	@scripts/with-cluster control-plane $(STAGE) "integration" "make cluster-up once, then make integration, is quicker" \
		cargo test --locked $(INTEGRATION_TESTS:%=--test %)
e2e: image ## Run the tests against a whole cluster (as root), with the images.
	@$(STAGE) "e2e: build" "mend what the compiler names" \
		cargo test --locked --quiet --no-run $(E2E_TESTS:%=--test %)
	@scripts/with-cluster node $(STAGE) "e2e" "target/cluster-demo.log has the end of the cluster's logs" \
		cargo test --locked $(E2E_TESTS:%=--test %)
fuzz: ## Feed the parsers bad input for SECONDS=60 each, in 10 ms an input; AX_FUZZ_SEED=N repeats a run.
	@$(STAGE) "fuzz: build" "mend what the compiler names" cargo build --locked --quiet --profile fuzz --example fuzz
	@$(STAGE) "fuzz" "add the input it prints to tests/corpus, and mend what it breaks" \
		env AX_FUZZ_SECONDS=$(or $(SECONDS),60) AX_FUZZ_LIMIT_MS=10 cargo run --locked --quiet --profile fuzz --example fuzz
bench: ## Measure ax on a real control plane, beside the bare API server: a table, and target/bench/slice.json.
	@$(STAGE) "bench: build" "mend what the compiler names" cargo bench --locked --quiet --no-run --bench slice
	@scripts/with-cluster control-plane $(STAGE) "bench" "run it when the machine does nothing else" \
		cargo bench --locked --quiet --bench slice
bench-wheel: ## Measure the timing wheel beside its peers, in about four minutes: a table, and target/bench/wheel.json.
	@$(STAGE) "bench-wheel: build" "mend what the compiler names" cargo bench --locked --quiet --no-run --bench wheel
	@$(STAGE) "bench-wheel" "run it when the machine does nothing else" cargo bench --locked --quiet --bench wheel
bench-trigger: ## Measure how late triggers are, alone and on a real control plane: a table, and target/bench/trigger.json.
	@$(STAGE) "bench-trigger: build" "mend what the compiler names" \
		cargo bench --locked --quiet --no-run --bench trigger
	@scripts/with-cluster control-plane $(STAGE) "bench-trigger" "run it when the machine does nothing else" \
		cargo bench --locked --quiet --bench trigger

.PHONY: bench-schedules
bench-schedules: ## Measure 5,000 schedules that meet at one minute; target/bench/schedules.json.
	@$(STAGE) "bench: build" "mend what the compiler names" cargo bench --locked --quiet --no-run --bench schedules
	@scripts/with-cluster control-plane $(STAGE) "bench" "run it when the machine does nothing else" \
		cargo bench --locked --quiet --bench schedules

.PHONY: crds image release
crds: ## Write the CRD files (crds/, config/crd/) from the Rust types.
	cargo run --locked --quiet --bin crdgen
release: ## Build the static release programs.
	@$(STAGE) "release build" "mend what the compiler names" \
		env RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --target $(TARGET) \
			--bin ax-operator --bin ax-worker
image: release ## Make the images: target/images/ax-operator.tar, target/images/ax-worker.tar.
	@$(STAGE) "images" "see what was said above" \
		env AX_OPERATOR_BIN=$(RELEASE)/ax-operator AX_WORKER_BIN=$(RELEASE)/ax-worker e2e/images/build.sh target/images
	@size=$$(stat -c %s target/images/ax-operator.tar); \
		echo "target/images/ax-operator.tar: $$size bytes (at most $(IMAGE_LIMIT))"; \
		((size <= $(IMAGE_LIMIT))) || { echo "the operator's image is too large" >&2; exit 1; }

.PHONY: cluster-up cluster-down
cluster-up: ## Start a control plane and leave it up, for quick runs of integration.
	@$(CLUSTER) up --tier control-plane --name test
cluster-down: ## Take down every cluster that was started here.
	@env -u KUBECONFIG $(CLUSTER) down --tier control-plane --name test
	@env -u KUBECONFIG $(CLUSTER) down --tier node --name demo
