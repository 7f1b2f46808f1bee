# Every target sets up what it needs; a second time is free. `make` alone tells what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOME_DIR ?= build/home
LISTEN ?= 127.0.0.1:5672
CASES ?=
SEED ?= 7
ROUNDS ?= 20
ROUND ?=
FLEET ?=
FRAMES ?= 20000
SECONDS ?= 3600
MODELS ?=
STAY ?=
EXTRAS ?= console,spark
DIST_ENV := build/dist-env
DOCS_ENV := build/docs-env
READY := $(VENV)/.ready
GATEWAY := $(VENV)/.gateway
# What is downloaded shows its progress; what is there already isn't listed.
INSTALL := -m pip install --disable-pip-version-check --editable
ARCHIVE := build/spark.jsa
# Where this is set, each of the tests' hundreds of processes compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo fleet test check bench run install crash takeovers fuzz soak jms dist docs clean compiler java

help: ## What there is
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(READY) ## 336,776 flights through the gateway, four workers, Spark, a picture (STAY=1: then look around)
	$(BIN)/python -m examples.demo --home build/demo $(if $(STAY),--stay)

fleet: $(READY) ## Three gateways, three logs of one home: the flights through gateways that relay, their owner is killed
	$(BIN)/python -m examples.fleet --home build/fleet

test: $(READY) $(ARCHIVE) $(DIST_ENV)/.ready ## All tests: core, tables, gateway, Spark
	$(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder

check: $(READY) ## ruff, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## Speed and memory against the budgets (CASES=drain,fanout-50 runs some)
	$(BIN)/python -m tests.bench $(CASES)

run: $(GATEWAY) ## A gateway on LISTEN that keeps everything under HOME_DIR; needs no Java
	$(BIN)/distributary serve --home $(HOME_DIR) --listen $(LISTEN)

install: $(READY) ## All that any target needs, Spark too (2 GB)

crash: $(READY) ## Kills, power cuts, bad disks: ROUNDS of them drawn by SEED, or ROUND alone
	$(BIN)/python -m tests.crash --seed $(SEED) --rounds $(ROUNDS) $(if $(ROUND),--round $(ROUND))

takeovers: $(READY) ## A home without a disk changes hands: ROUNDS drawn by SEED, or ROUND alone (FLEET=1: three logs, five gateways)
	$(BIN)/python -m tests.crash.$(if $(FLEET),fleet_rounds,take_overs) --seed $(SEED) --rounds $(ROUNDS) $(if $(ROUND),--round $(ROUND))

soak: $(READY) ## The models at random, for SECONDS, from SEED on: for nights (MODELS=typed: those)
	nice $(BIN)/python -m tests.soak --seed $(SEED) --seconds $(SECONDS) --models "$(MODELS)"

fuzz: $(READY) ## Random conversations, C with sanitizers: ROUNDS of FRAMES drawn by SEED, or ROUND alone
	$(BIN)/python -m tests.fuzz --seed $(SEED) --rounds $(ROUNDS) --frames $(FRAMES) $(if $(ROUND),--round $(ROUND))

jms: $(READY) ## The Qpid JMS client's tests: Java against a real gateway
	$(BIN)/python -m tests.jms

dist: $(DIST_ENV)/.ready ## Wheels and one executable file, in dist/: nobody needs a compiler (EXTRAS=console: without Spark)
	$(DIST_ENV)/bin/python deploy/packages/build_packages.py --to dist --extras $(EXTRAS)

docs: $(DOCS_ENV)/.ready ## The pages as a searchable site, in build/site: open build/site/index.html
	$(DOCS_ENV)/bin/python deploy/site/build_site.py --to build/site

clean: ## Remove what was built, the virtual environment too
	rm -rf build dist spark-warehouse $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis ingest/native/_pump.*

# What must be there before anything else is tried.
compiler:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Python 3.11 or newer is needed: install it, or name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@command -v cc >/dev/null 2>&1 \
	  || { echo "A C compiler is needed (Proton and the pump are compiled): install gcc or clang, e.g. 'apt-get install gcc'." >&2; exit 1; }
	@$(PYTHON) -c 'import sysconfig, pathlib, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' \
	  || { echo "Python's headers are needed to compile: install them, e.g. 'apt-get install python3-dev'." >&2; exit 1; }

java:
	@java -version 2>&1 | $(PYTHON) -c 'import re, sys; found = re.search(r"version \"(\d+)", sys.stdin.read()); sys.exit(not found or int(found[1]) < 17)' \
	  || { echo "Java 17 or newer is needed for Spark: install it, e.g. 'apt-get install openjdk-17-jre-headless'." >&2; exit 1; }

SOURCES := pyproject.toml $(wildcard ingest/native/*.c) ingest/native/build_pump.py pipeline/amqp/endpoint_states.py pipeline/codec/amqp_codes.py

# The gateway and its console; whatever else is installed already stays.
$(GATEWAY): $(SOURCES) | compiler
	@echo "Installing the gateway into $(VENV), once: 100 MB to load, a minute or two."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) '.[console]'
	@touch $@

$(READY): $(SOURCES) | compiler java
	@echo "Installing all into $(VENV), once: 900 MB to load, several minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) '.[dev]'
	@touch $(GATEWAY) $@

$(DIST_ENV)/.ready: deploy/packages/requirements.txt
	$(PYTHON) -m venv $(DIST_ENV)
	$(DIST_ENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(DOCS_ENV)/.ready: deploy/site/requirements.txt
	$(PYTHON) -m venv $(DOCS_ENV)
	$(DOCS_ENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Spark's classes for the tests' JVMs, read and checked once.
$(ARCHIVE): $(READY) tests/support/class_archive.py jobs/views/prepare_job.py jobs/session/class_archive.py
	$(BIN)/python tests/support/class_archive.py $@
