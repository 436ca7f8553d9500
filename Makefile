# What an operator and a developer type. The order of the build is the reason for this file: the
# official components are compiled to wasm, then to machine code; `make dist` then puts them into
# the server's binary.
# Cargo.toml says what the two profiles are for: `dev` (target/debug) and `dist` (target/dist).

.DEFAULT_GOAL := help
.PHONY: help run test test-mysql fault fuzz bench bench-against lint build build-fault build-tests \
	dist dist-pgo plugins precompiler compiled guests golden demo-postgres toolchain
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

TARGET := $(or $(CARGO_TARGET_DIR),target)
WASM := $(TARGET)/wasm32-wasip2/plugin
PLUGINS := $(TARGET)/plugins
# The SDK builds one world at a time, so cargo is called once per world.
# `plugins/official.txt` names the components and their worlds; an engine that answers plain HTTP
# has the word `raw` behind its name, and exports one interface more. The catalog has no seal
# plugins: the server finds a seal plugin by the kind of its seal, the name without `seal-`.
official = $(shell sed -n 's/^$(1)$$/\1/p' plugins/official.txt)
SECRETS_ENGINES := $(call official,secrets-engine \([^ ]*\))
RAW_ENGINES := $(call official,secrets-engine \([^ ]*\) raw)
AUTH_METHODS := $(call official,auth-method \([^ ]*\))
DATABASE_PLUGINS := $(call official,database-plugin \([^ ]*\))
SEAL_PLUGINS := $(call official,seal-plugin \([^ ]*\))
COMPONENTS := $(SECRETS_ENGINES) $(RAW_ENGINES) $(AUTH_METHODS) $(DATABASE_PLUGINS) $(SEAL_PLUGINS)
# Folders of this machine, and the names that stand for them in panic messages of components and of
# the `dist` server, so that a component has one digest whoever builds it. The last pair that fits a
# path counts. The standard library's source has a folder only where `rust-src` is installed.
CARGO_FOLDER := $(abspath $(or $(CARGO_HOME),$(HOME)/.cargo))
RUST_SOURCE = $(shell rustc --print sysroot)/lib/rustlib/src/rust
RUST_COMMIT = $(shell rustc -vV | sed -n 's/^commit-hash: //p')
FOLDERS = $(CURDIR)=/bulkhead $(CARGO_FOLDER)=/cargo $(RUST_SOURCE)=/rustc/$(RUST_COMMIT) \
	$(abspath $(TARGET))=/target
left = $(firstword $(subst =, ,$(1)))
# $(1) cargo's setting with the compiler's flags. The `dev` server keeps the folders: other flags
# than those of plain `cargo build` would compile everything a second time.
renamed = --config '$(1)=[$(foreach pair,$(FOLDERS),"--remap-path-prefix=$(pair)",)$(2)]'
# $(1) a profile without folders of this machine, $(2) more flags of the compiler.
flagged = --profile $(1) $(call renamed,build.rustflags,$(foreach flag,$(2),"$(flag)",))
DIST = $(call flagged,dist)
# Every native build names the whole workspace: with `-p x` cargo chooses fewer features for some
# dependencies and compiles them, and everything above them, a second time.
CARGO_BUILD := cargo build --workspace
CARGO_TEST := cargo test --workspace
# Runs a command, and notes the seconds it took for the table of `make test`.
STEP := tests/step.sh

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

run: build ## build, and start the dev server on 127.0.0.1:8200
	@$(TARGET)/debug/bulkhead server --dev

build: compiled ## target/debug/bulkhead, and the official components beside it
	@$(STEP) 'server' $(CARGO_BUILD) --bin bulkhead

dist: compiled ## target/dist/bulkhead, the optimised build, for benchmarks as well
	@$(STEP) 'server, dist profile' $(CARGO_BUILD) $(DIST) --bin bulkhead
	$(call without_folders,$(TARGET)/dist/bulkhead)

# Profile-guided optimisation: a server that counts its branches answers the standard requests on
# each storage and over TLS, and the compiler then arranges the code by these counts. Code that the
# load does not reach is compiled for size, so that a new way to serve belongs into the load. The
# counts are written while the server runs (%c), because the benchmarks kill their servers; such
# files lack the padding behind the last names, and have no values of variables: with -disable-vp,
# the compiler expects none. The processes that compile uploaded components have no environment, so
# that their files have other names, and are left out.
COUNTS := $(abspath $(TARGET))/counted/counts
COUNT := -Cprofile-generate=$(COUNTS) -Cllvm-args=-runtime-counter-relocation \
	-Cllvm-args=-disable-vp
COUNTED = -Cprofile-use=$(COUNTS)/all.profdata -Cllvm-args=-disable-vp
COUNT_FILES := $(COUNTS)/sqlite-*.profraw $(COUNTS)/postgresql-*.profraw
PROFDATA = $(shell rustc --print target-libdir)/../bin/llvm-profdata
dist-pgo: compiled ## target/dist-pgo/bulkhead, as dist, with the counts of a load: twice as long
	@[ -x $(PROFDATA) ] || rustup component add llvm-tools
	@$(STEP) 'server that counts' $(CARGO_BUILD) $(call flagged,counted,$(COUNT)) --bin bulkhead
	@rm -rf $(COUNTS)
	@tests/servers/install.sh postgres
	@for storage in sqlite postgresql; do \
	    LLVM_PROFILE_FILE=$(COUNTS)/$$storage-%c%p.profraw BULKHEAD_TEST_STORAGE=$$storage \
	    BULKHEAD_TEST_BINARY=$(abspath $(TARGET))/counted/bulkhead $(STEP) "counts on $$storage" \
	        cargo bench --workspace --profile dev --bench standard_requests --bench tls; \
	done
	@ls $(COUNT_FILES) >/dev/null
	@truncate -s +8 $(COUNT_FILES)
	@$(PROFDATA) merge --output $(COUNTS)/all.profdata $(COUNT_FILES)
	@$(STEP) 'server, dist-pgo profile' \
	    $(CARGO_BUILD) $(call flagged,dist-pgo,$(COUNTED)) --bin bulkhead
	$(call without_folders,$(TARGET)/dist-pgo/bulkhead)

# Fails if the binary $(1) names a folder of this machine.
define without_folders
	@for folder in $(filter-out /,$(HOME)) $(foreach pair,$(FOLDERS),$(call left,$(pair))); do \
	    if grep -qaE "(^|[^[:alnum:]_/.-])$$folder/" $(1); then \
	        echo "$(1) names the folder $$folder of this machine:" \
	            "unset RUSTFLAGS, or add the folder to FOLDERS in the Makefile" >&2; exit 1; \
	    fi; \
	done
endef

# Components do not wait for the libraries of the host, nor these for them.
compiled:
	@$(MAKE) --no-print-directory -j2 plugins precompiler
	$(call machine_code,$(addprefix $(PLUGINS)/,$(COMPONENTS)))

# $(1) paths of components, without their ending. Cargo links `precompile` anew only when the
# sandbox changed.
define machine_code
	@$(STEP) 'machine code: $(notdir $(1))' bash -euc 'for path in $(1); do \
	    compiler=$(TARGET)/debug/precompile; out=$$path.cwasm; \
	    if [ ! -e $$out ] || [ $$path.wasm -nt $$out ] || [ $$compiler -nt $$out ]; then \
	        $$compiler $$path.wasm $$out; \
	    fi; \
	done'
endef

precompiler: toolchain
	+@$(STEP) 'libraries, sandbox and precompile' $(CARGO_BUILD) --bin precompile

# `+` hands cargo the share of the processors that `make -j2` gives out.
# $(1) packages, $(2) destination folder. A component that did not change keeps its date, so that
# nothing after it is built again.
define components
	@mkdir -p $(2)
	+@$(STEP) 'components: $(subst bulkhead-,,$(1))' \
	    cargo build --profile plugin --target wasm32-wasip2 \
	    $(call renamed,target.wasm32-wasip2.rustflags) $(addprefix -p ,$(1))
	@for package in $(1); do \
	    in=$(WASM)/$${package//-/_}.wasm; name=$${package#bulkhead-}; name=$${name#guest-}; \
	    out=$(2)/$${name#example-}.wasm; cmp -s $$in $$out || cp $$in $$out; \
	done
endef

plugins: toolchain ## target/plugins/*.wasm
	$(call components,$(addprefix bulkhead-,$(SECRETS_ENGINES)),$(PLUGINS))
	$(call components,$(addprefix bulkhead-,$(RAW_ENGINES)),$(PLUGINS))
	$(call components,$(addprefix bulkhead-,$(AUTH_METHODS)),$(PLUGINS))
	$(call components,$(addprefix bulkhead-,$(DATABASE_PLUGINS)),$(PLUGINS))
	$(call components,$(addprefix bulkhead-,$(SEAL_PLUGINS)),$(PLUGINS))

# Some machines have rustup's automatic installation switched off, and rustup does not add targets
# by itself.
toolchain:
	@command -v cargo >/dev/null || \
	    { echo "cargo is missing: install rustup from https://rustup.rs" >&2; exit 1; }
	+@version=$$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml); \
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
guests: compiled
	$(call components,bulkhead-guest-probe bulkhead-example-notes,$(TARGET)/guests)
	$(call components,bulkhead-guest-keyring,$(TARGET)/guests)
	$(call components,bulkhead-example-passphrase,$(TARGET)/guests)
	$(call components,bulkhead-guest-doorman,$(TARGET)/guests)
	$(call components,bulkhead-guest-hostile,$(TARGET)/guests)
	$(call components,bulkhead-guest-built-for-1-0,$(TARGET)/guests)
	$(call components,bulkhead-guest-built-for-1-1,$(TARGET)/guests)
	$(call machine_code,$(addprefix $(TARGET)/guests/,doorman hostile probe))

# A build of its own name beside the other: the server that people run has no failpoints. Cargo
# compiles the four crates that have the feature again, and nothing below them.
build-fault: compiled
	@$(STEP) 'server with failpoints' \
	    $(CARGO_BUILD) --features bulkhead-server/fault --bin bulkhead-fault

build-tests: guests
	@$(STEP) 'test programs' $(CARGO_TEST) --no-run --quiet

test: ## every test, against the built binary and real servers
	@tests/suite.sh

# Its version cannot be pinned, so it is no part of `make test`.
test-mysql: build ## what is asked of MariaDB, asked of MySQL, fetched as Debian has it
	@tests/servers/install.sh
	@tests/servers/mysql.sh --where
	@BULKHEAD_TEST_MYSQL=1 $(CARGO_TEST) --test e2e mysql::

fault: build build-fault ## death, full disk and power cut at every point, tried at length
	@tests/servers/install.sh
	@$(CARGO_TEST) --features bulkhead-server/fault --lib committer
	@FAULT_THOROUGH=1 $(CARGO_TEST) --test fault -- --nocapture

# Two seconds a target are part of `make test`.
fuzz: build guests ## parsers given nearly good input at random, FUZZ_SECONDS (600) each
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} $(CARGO_TEST) --test fuzz -- --nocapture --test-threads=2

# The list of advisories comes from a git repository, which some machines do not reach. A list of an
# earlier run is not asked: an old list would pass for today's.
lint: compiled ## format, clippy and, where cargo-deny is installed, licences, bans and advisories
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings
	@if ! cargo deny --version >/dev/null 2>&1; then \
	    echo "left out: cargo deny is not installed (cargo install cargo-deny)"; exit 0; \
	fi; \
	cargo deny --config .deny.toml check bans licenses sources; \
	if cargo deny fetch --config $(CURDIR)/.deny.toml db; then \
	    cargo deny --config .deny.toml check --disable-fetch advisories; \
	else echo "left out: advisories: the list of advisories cannot be had"; fi

golden: build guests ## rewrite tests/golden and the generated tables of docs; read the difference
	@tests/servers/install.sh
	@UPDATE_GOLDEN=1 $(CARGO_TEST) --test e2e endpoints
	@UPDATE_GOLDEN=1 $(CARGO_TEST) --lib sys_metrics::registry

bench: dist guests ## ratios against the bare limits in the same run; also target/bench.json
	@tests/servers/install.sh
	@rm -f $(TARGET)/bench.json
	@cargo bench --workspace $(DIST) --bench "*"

# The other server is built in a clone of its own, once for each commit.
bench-against: dist guests ## time of the standard requests, in turns with the server of COMMIT=...
	@commit=$$(git rev-parse --quiet --verify "$(COMMIT)^{commit}") || { \
	    echo "there is no commit '$(COMMIT)': give one, as in make bench-against COMMIT=HEAD~1" >&2; \
	    exit 2; \
	}; \
	other=$(abspath $(TARGET))/against/$$commit; \
	if [ ! -x $$other/target/dist/bulkhead ]; then \
	    rm -rf $$other && git clone --quiet --no-checkout . $$other; \
	    git -C $$other checkout --quiet --detach $$commit; \
	    env -u CARGO_TARGET_DIR $(MAKE) -C $$other dist; \
	fi; \
	BENCH_AGAINST=$$other/target/dist/bulkhead \
	    cargo bench --workspace $(DIST) --bench standard_requests

demo-postgres: ## a private PostgreSQL to try things on, until Ctrl-C
	@tests/servers/install.sh postgres
	@tests/servers/postgres.sh --demo
