# What a user and a developer call. Each target sets up what it needs.
.PHONY: help machine setup python spark build java java-opentelemetry forwarder quic storm flink kafka try demo demo-hosts dist test test-all lint lint-rust lint-rest bench mutants clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: ## check the machine, make .venv
	@scripts/setup.sh

python: setup ## the Python package, installed in .venv
	@scripts/python.sh

spark: python ## pyspark and moto in .venv, 550 MB, for the tests of runs on Spark and in storage
	@scripts/setup.sh spark

machine: ## check what a build needs
	@scripts/setup.sh build

# A target in C is targets/NAME/NAME.c.
TARGETS := $(foreach name,$(notdir $(wildcard targets/*)),$(if $(wildcard targets/$(name)/$(name).c),build/$(name)))
build: machine $(TARGETS) ## the tickscope command and the targets
	cargo build --release --locked --bin tickscope --bin prrt

# Libraries of the forwarder: those that are not here are left out of it, and `make forwarder` installs them.
forwarder_FLAGS = $(shell targets/forwarder/libraries.sh)

.SECONDEXPANSION:
$(TARGETS): build/%: $$(wildcard targets/$$*/* targets/harness/*) $(wildcard crates/stamp/include/*.h)
	@mkdir -p build
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -pthread -I crates/stamp/include -o $@ targets/$*/$*.c $($*_FLAGS)

forwarder: machine ## the forwarder of the age study with DPDK and liburcu, which it installs
	@scripts/setup.sh forwarder
	$(MAKE) --no-print-directory --always-make build/forwarder

quic: build ## prrt with QUIC as a fourth transport, of crates that nothing else needs: experiments/prrt-rivals.toml
	cargo build --release --locked --bin prrt --features tickscope-prrt/quic

java: build/tickscope.jar ## the library for Java: build/tickscope.jar; for Maven and Gradle: build/maven
	@java/repository.sh

build/tickscope.jar: java/build.sh java/native/counter.c crates/stamp/include/tickscope.h $(wildcard java/src/tickscope/*)
	@java/build.sh

java-opentelemetry: build/tickscope-opentelemetry.jar java ## the span processor: build/tickscope-opentelemetry.jar; Maven fetches its SDK

build/tickscope-opentelemetry.jar: build/tickscope.jar java/opentelemetry/build.sh java/opentelemetry/pom.xml $(wildcard java/opentelemetry/src/tickscope/opentelemetry/*)
	@test -e build/maven || java/repository.sh
	@java/opentelemetry/build.sh

storm: build build/tickscope.jar ## the Yahoo benchmark on Storm, which Maven fetches, and Redis, which it installs: experiments/ysb.toml
	@scripts/setup.sh storm
	@targets/storm/build.sh

flink: build build/tickscope.jar ## the same benchmark on Flink, which Maven fetches: experiments/ysb-engines.toml
	@scripts/setup.sh storm
	@targets/flink/build.sh

kafka: build build/tickscope.jar ## a broker of Kafka, which Maven fetches, and a consumer: experiments/kafka.toml
	@targets/kafka/build.sh

try: build ## the demo for five seconds; no rights needed
	target/release/tickscope run experiments/demo.toml --seconds 5

demo: build ## measure a UDP echo service between two nodes for a minute; a table, and a page to look at
	target/release/tickscope run experiments/demo.toml --report

demo-hosts: python build ## the demo between three hosts on this machine, over ssh, as root: namespaces with an sshd each
	@python3 tests/hosts/cluster.py up 3 build/hosts >/dev/null
	ip netns exec tsh1-0 target/release/tickscope run demo/hosts.toml --report; code=$$?; \
	python3 tests/hosts/cluster.py down build/hosts; exit $$code

dist: python ## what is installed elsewhere: a wheel, a static command, crates, jars with their POMs: build/dist
	@scripts/setup.sh dist
	@scripts/dist.sh

test: python ## the tests, counted by kind; SLOW=1: on one processor beside two busy processes
	python3 tests/run.py $(if $(SLOW),--slow)

test-all: spark storm flink kafka dist ## the same with every mutant, case and kill: hours
	python3 tests/run.py --all

lint: python ## formatting, lints, the tree's own rules
	@$(MAKE) --no-print-directory -j2 --output-sync=line lint-rust lint-rest

lint-rust:
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# One thread each, beside the compiler's.
lint-rest:
	.venv/bin/ruff check --quiet python
	.venv/bin/ruff format --quiet --check python
	.venv/bin/mypy --no-error-summary
	.venv/bin/stubtest --concise --mypy-config-file pyproject.toml tickscope
	python3 tests/tree --self-test
	python3 tests/mutants/run.py --check

bench: python build ## benchmarks, each beside its floor and its rivals measured in the same run
	python3 bench/run.py

mutants: python ## change the code in ways that must turn its tests red: all, or of files changed SINCE=COMMIT
	python3 tests/mutants/run.py $(if $(SINCE),--since $(SINCE))

clean: ## remove what was built
	rm -rf target build .venv
