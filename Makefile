# Each command does its own set-up first (tests/setup): once long, then a moment.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo demo-down test soak fuzz bench check generate clean-rig clean-cache

SETUP := tests/setup
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# What is measured is what is shipped.
PROFILE := dist
UNIT_TESTS := $(wildcard */tests/unit_*.rs shared/*/tests/unit_*.rs)
RUN := cargo run -q --bin

help: ## this list
	@awk -F ' *:.*## *' '/^[a-z-]+:.*##/ { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the main job on a real cluster; KEEP=1 leaves it up
	@$(SETUP)/setup.sh demo
# It starts the programs themselves, which `cargo run` alone does not build.
	cargo build --workspace --bins
	@$(if $(KEEP),CAUSEWAY_KEEP=$(KEEP)) $(RUN) causeway-demo

demo-down: ## ends what KEEP=1 left up
	@$(RUN) causeway-demo -- down

test: ## every test of every level, with counts by level at the end; OVN=next: those of the topology, with the next OVN
	@$(SETUP)/setup.sh test
ifeq ($(OVN),next)
	@$(SETUP)/setup.sh rootfs-next
	@CAUSEWAY_CACHE=$$(source $(SETUP)/lib/common.sh && echo "$$CACHE/next") $(SETUP)/run-tests.sh \
	  --test 'switch_topology*' --test cluster_topology_traffic --test kernel_topology_traffic
else
	@$(SETUP)/run-tests.sh
endif

soak: ## random trouble for SECONDS (600), in rounds with a verdict each; SEED=N repeats one
	@$(SETUP)/setup.sh test
	cargo build -q --workspace --bins
	CAUSEWAY_REQUIRE=api,cluster,switch CAUSEWAY_CHURN_SECONDS=$(or $(SECONDS),600) $(if $(SEED),CAUSEWAY_SEED=$(SEED)) \
	  cargo test -q -p causeway-tests --no-fail-fast --test api_chaos --test cluster_churn --test switch_isolation_churn \
	  --test switch_topology_churn \
	  -- --test-threads=1 --nocapture

fuzz: ## property tests of all that parses foreign bytes, CASES (20000) for each
	PROPTEST_CASES=$(or $(CASES),20000) cargo test -q -p ovsdb -p causeway-netlink -p causeway-api --lib

bench: ## the measures, into target/bench/; ONLY=react_,idle_ by the beginning of names; CHANGES=N (500) each; PROFILE=release is built sooner
	@$(SETUP)/setup.sh bench
	@cargo build --profile $(PROFILE) -q --workspace --bins
	@cargo run --profile $(PROFILE) -q --bin causeway-bench -- --only '$(ONLY)' $(if $(CHANGES),--changes $(CHANGES))

check: ## the inner loop: format, lints, unit tests, generated files
	@$(SETUP)/setup.sh check
	@$(SETUP)/test-setup.sh
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo run -q -p causeway-gen -- --check
	cargo test -q --workspace --lib --bins $(if $(UNIT_TESTS),--test 'unit_*')

generate: ## writes the generated files anew
	cargo run -q -p causeway-gen

clean-rig: ## removes what a rig left on the machine
	@for profile in debug release dist; do \
	  if [[ -x $(TARGET_DIR)/$$profile/causeway-rig ]]; then exec $(TARGET_DIR)/$$profile/causeway-rig clean; fi; \
	done; echo "nothing left: the rig was never built here"

clean-cache: ## removes what the set-up made
	@$(SETUP)/clean-cache.sh
