# What an operator and a developer type. The order of the build is the reason for this file: the
# official components are compiled to wasm, then to machine code, then put into the server's binary.

.DEFAULT_GOAL := help
.PHONY: help run test test-mysql fault fuzz bench lint build build-fault plugins guests golden \
	demo-postgres toolchain
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

TARGET := $(or $(CARGO_TARGET_DIR),target)
WASM := $(TARGET)/wasm32-wasip2/plugin
PLUGINS := $(TARGET)/plugins
COMPONENTS := cloud-a cloud-b cluster database database-postgresql database-mysql directory
GUESTS := doorman hostile keyring probe
EXAMPLES := notes passphrase
# The whole workspace is named at each build, so that cargo chooses the same features every time and
# compiles wasmtime once.
CARGO_BUILD := cargo build --release --workspace

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

run: build ## build, and start the dev server on 127.0.0.1:8200
	@$(TARGET)/release/bulkhead server --dev

build: plugins ## target/release/bulkhead with the official components inside
	@$(CARGO_BUILD) --bin precompile
	@for name in $(COMPONENTS); do \
	    in=$(PLUGINS)/$$name.wasm; out=$(PLUGINS)/$$name.cwasm; \
	    compiler=$(TARGET)/release/precompile; \
	    if [ ! -e $$out ] || [ $$in -nt $$out ] || [ $$compiler -nt $$out ]; then \
	        $$compiler $$in $$out; \
	    fi; \
	done
	@$(CARGO_BUILD) --bin bulkhead

# One cargo call a component: each turns on another half of the SDK, and together they would get
# both. A component that did not change keeps its date, so that nothing after it is built again.
# $(1) names, $(2) the beginning of their packages' names, $(3) the folder they go to.
define components
	@mkdir -p $(3)
	@for name in $(1); do \
	    cargo build --profile plugin --target wasm32-wasip2 -p $(2)-$$name; \
	    package=$(2)-$$name; in=$(WASM)/$${package//-/_}.wasm; out=$(3)/$$name.wasm; \
	    cmp -s $$in $$out || cp $$in $$out; \
	done
endef

plugins: toolchain ## target/plugins/*.wasm
	$(call components,$(COMPONENTS),bulkhead,$(PLUGINS))

# Some machines have rustup's automatic installation switched off, and rustup does not add targets
# by itself.
toolchain:
	@command -v cargo >/dev/null || \
	    { echo "cargo is missing: install rustup from https://rustup.rs" >&2; exit 1; }
	@version=$$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml); \
	if ! rustc --version >/dev/null 2>&1; then \
	    rustup toolchain install $$version --profile minimal --component rustfmt --component clippy; \
	fi; \
	if [ ! -d "$$(rustc --print target-libdir --target wasm32-wasip2)" ]; then \
	    command -v rustup >/dev/null || \
	        { echo "the Rust target wasm32-wasip2 is missing, and rustup to add it:" \
	            "see https://rustup.rs" >&2; exit 1; }; \
	    rustup target add wasm32-wasip2; \
	fi

# Components that only tests load, and the examples. They are no part of the product.
guests: toolchain
	$(call components,$(GUESTS),bulkhead-guest,$(TARGET)/guests)
	$(call components,$(EXAMPLES),bulkhead-example,$(TARGET)/guests)

# A build of its own name beside the other: the server that people run has no failpoints.
build-fault: build
	@$(CARGO_BUILD) --features bulkhead-server/fault --bin bulkhead-fault

test: build build-fault guests ## every test, against the built binary and a real PostgreSQL
	@tests/suite.sh

# Its version cannot be pinned, so it is no part of `make test`.
test-mysql: build ## what is asked of MariaDB, asked of MySQL, fetched as Debian has it
	@tests/servers/install.sh
	@tests/servers/mysql.sh --where
	@BULKHEAD_TEST_MYSQL=1 cargo test --release --workspace --test e2e mysql::

fault: build build-fault ## death, full disk and power cut at every point, tried at length
	@tests/servers/install.sh
	@cargo test --release --workspace --features bulkhead-server/fault --lib group
	@FAULT_THOROUGH=1 cargo test --release --workspace --test fault -- --nocapture

# Two seconds a target are part of `make test`.
fuzz: build guests ## parsers given nearly good input at random, FUZZ_SECONDS (600) each
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} cargo test --release --workspace --test fuzz -- \
	    --nocapture --test-threads=2

lint: build ## format, clippy and, where cargo-deny is installed, licences and banned crates
	@cargo fmt --all --check
	@cargo clippy --release --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then \
	    cargo deny --config .deny.toml check bans licenses sources; \
	else echo "left out: cargo deny is not installed (cargo install cargo-deny)"; fi

golden: build guests ## rewrite tests/golden from this build; a difference is an API change
	@tests/servers/install.sh
	@UPDATE_GOLDEN=1 cargo test --release --workspace --test e2e endpoints

bench: build guests ## ratios against the bare limits in the same run; also target/bench.json
	@tests/servers/install.sh
	@rm -f $(TARGET)/bench.json
	@cargo bench --workspace --bench "*"

demo-postgres: ## a private PostgreSQL to try things on, until Ctrl-C
	@tests/servers/install.sh
	@tests/servers/postgres.sh --demo
