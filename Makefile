# The front door. Each target sets up .venv by itself and does nothing twice: `make run` what the
# broker needs, the others what the tests need as well.
#
#   make run          the broker, in the foreground
#   make test         what every change needs, in about three minutes; make test ARGS=tests/storage
#   make test-all     that and the rest: JVM, Spark, kills; what this machine lacks is listed
#   make test PYTHON=python3.14  on another Python than that of .venv, in .cache/venv-3.14
#   make test-debian  make test on another Debian, kept in .cache: its Python and OpenSSL; as root:
#                     make test-debian DEBIAN=sid ARGS=tests/storage
#   make check        format, lint, types and the subjects of commits
#   make bench        the hot paths in figures
#   make bench-record stock clients' frames, recorded anew for the bench to play
#   make bench-clean  the cleaner in figures; beside Apache Kafka's: make bench-clean ARGS=--peer
#   make demo         a git history, compacted before your eyes: make demo REPO=~/project
#   make demo-pipeline  the same history as Parquet and Iceberg tables, on Spark
#   make crash        kill the broker again and again: make crash KILLS=2000 SEED=7
#   make fuzz         ten million malformed frames: make fuzz FRAMES=1000000 SEED=7
#   make damage       starts on damaged folders, every byte of one: make damage DAMAGED=3000 SEED=7
#   make simulate-coverage SEEDS=100  which lines of the broker random histories execute
#   make simulate-planted  which seed finds each planted fault: make simulate-planted ARGS='NAME --seeds 500'
#   make kernels-sanitized  compiled code that reports bad memory and bad numbers, at its work
#   make large        every API asked for as much as fits 1, 4 and 16 MB, beside a client that waits
#   make simulate     a whole broker under random histories, on a simulated world; it goes on where
#                     it was left: make simulate SEEDS=10000 FIRST=7; one, with its story and cut
#                     down if it fails: make simulate SEED=7; a hundred disks that
#                     each power failure may leave: make simulate SEEDS=2000 IMAGES=100
#   make beside       such histories without faults, on the wire to Apache Kafka and to ours in
#                     step; it goes on where it was left: make beside SEEDS=100 FIRST=7
#   make differential Apache Kafka's cleaner beside ours: make differential FOLDERS=100 SEED=7
#   make soak         hours of real clients, kills and full disks, with curves of memory; it goes on
#                     where it was left: make soak HOURS=2
#   make compat       public suites of Kafka clients: make compat SUITE=franz-go
#   make figures      the tree in figures; what each counts and how: make figures ARGS='--how --names'
#   make docs         write the generated documents and the sample server.yaml
#   make messages     write the tables of messages from Kafka's jars
#   make image-check  build the container image without an engine and run it
#   make jars         Apache Kafka's, the Spark connector's, Delta's and Iceberg's jars from Maven, for the tests
#   make prometheus   Debian's Prometheus and promtool beside the tests, without root
#   make schemas      what Grafana and Kubernetes take, from their own schemas, for the tests
#   make s3-server    moto, the S3 server of the tests of tables in object storage
#   make spark-connect  what a client of Spark Connect needs, for the test of jobs by it
#   make test-spark-all  the Spark tests on the pinned release and on SPARK='4.1.4 4.3.0'
#   make stream-kills a Spark stream under kill -9: make stream-kills KILLS=20
#   make table-histories  jobs beside other writers of their tables: make table-histories HISTORIES=1000
#   make sbom         what the broker consists of, as CycloneDX, into dist/siltstone.cdx.json
#   make sdist wheel  the source archive, and the wheel for this Python and any Linux, into dist/
#   make release-check  all that a tag does but publish; it goes on where it was left
#   make audit        pip-audit on what the broker needs, bandit on our code; asks the index
#   make lock         uv.lock and the requirements.lock files, after a change of dependencies
#   make clean        take away what these targets made

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
# What is compiled has the version of Python in its name, so that several have room in one tree.
VENV := .venv
ifeq ($(origin PYTHON) $(wildcard .venv),command line .venv)
ASKED := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(wildcard .venv/lib/python$(ASKED)),)
VENV := .cache/venv-$(ASKED)
endif
endif
export UV_PROJECT_ENVIRONMENT := $(VENV)
BIN := $(VENV)/bin
CODE := siltstone broker protocol storage cleaner config pipeline pyspark_siltstone
KERNELS_IN := $(shell find $(CODE) -type f '(' -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -path 'protocol/core/constants.py' -o -path 'protocol/messages/columns.py' ')')
ARGS ?=

INSTALLER := $(if $(shell command -v uv),uv,pip)
INSTALL.uv := uv pip install --python $(BIN)/python --reinstall-package siltstone
# Bytecode is written when a module is first imported, not now for all of Cython; pip reads 0 as yes.
# To make a venv with a pip of its own takes four seconds, so the pip of $(PYTHON) works in it.
OTHER_PIP := $(PYTHON) -m pip --python $(BIN)/python
PIP = PIP_NO_COMPILE=0 $(shell test -x $(BIN)/pip && echo '$(BIN)/python -m pip' || echo '$(OTHER_PIP)') --disable-pip-version-check
INSTALL.pip = $(PIP) install --force-reinstall
# The kernels need no package of the broker's: pip, which is slow, fetches these meanwhile.
BEFORE.uv := $(VENV)/.runtime-uv
BEFORE.pip := $(VENV)/.made-pip
TARGET.uv := uv pip install --python $(BIN)/python --target
TARGET.pip = $(PIP) install --upgrade --target

.PHONY: help run setup test test-all test-debian test-spark-all check bench bench-record bench-clean demo demo-pipeline crash fuzz damage kernel-tools kernels-sanitized simulate simulate-coverage simulate-planted beside soak differential compat docs figures messages image-check jars prometheus schemas s3-server spark-connect stream-kills table-histories sbom release-notes sdist wheel release-check publish image-push image-join audit lock clean

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/.runtime-uv: uv.lock
	@echo 'siltstone: fetching what the broker needs into $(VENV), once' >&2
	@uv sync --quiet --locked --inexact --no-install-project --python '$(PYTHON)'
	@rm -f $(VENV)/.runtime-* $(VENV)/.made-* $(VENV)/.installed
	@touch $@

$(VENV)/.made-pip:
	@echo 'siltstone: making $(VENV), once' >&2
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(OTHER_PIP) --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@rm -f $(VENV)/.runtime-* $(VENV)/.environment-* $(VENV)/.installed
	@touch $@

$(VENV)/.runtime-pip: $(VENV)/.made-pip docker/requirements.lock
	@echo 'siltstone: fetching what the broker needs into $(VENV), once' >&2
	@$(PIP) install --quiet --quiet --require-hashes --requirement docker/requirements.lock
	@touch $@

# What the checks need, which is less than what the tests do: no Spark.
$(VENV)/.checkers-uv: $(VENV)/.runtime-uv uv.lock
	@echo 'siltstone: fetching what the checks need into $(VENV), once' >&2
	@uv sync --quiet --locked --inexact --extra test --extra oauth --no-install-project --python '$(PYTHON)'
	@rm -f $(VENV)/.checkers-* $(VENV)/.installed
	@touch $@

$(VENV)/.checkers-pip: $(VENV)/.runtime-pip tests/requirements.lock
	@echo 'siltstone: fetching what the checks need into $(VENV), once' >&2
	@$(PIP) install --quiet --quiet --require-hashes --requirement tests/requirements.lock
	@rm -f $(VENV)/.checkers-*
	@touch $@

# An exact sync takes our own package out again, so it comes before `.installed`.
$(VENV)/.environment-uv: $(VENV)/.checkers-uv uv.lock
	@echo 'siltstone: fetching what the tests need into $(VENV), once' >&2
	@uv sync --quiet --locked --extra test --extra spark --extra oauth --no-install-project --python '$(PYTHON)'
	@rm -f $(VENV)/.environment-* $(VENV)/.installed
	@touch $@

$(VENV)/.environment-pip: $(VENV)/.checkers-pip requirements.lock
	@echo 'siltstone: fetching what the tests need into $(VENV), once' >&2
	@$(PIP) install --quiet --quiet --require-hashes --requirement requirements.lock
	@rm -f $(VENV)/.environment-*
	@touch $@

$(VENV)/.installed: $(BEFORE.$(INSTALLER)) pyproject.toml hatch_build.py $(KERNELS_IN)
	@$(BIN)/python hatch_build.py --compiler
	@$(INSTALL.$(INSTALLER)) --quiet --no-deps --editable .
	@touch $@

# Two steps, since `.installed` is looked at anew when the tests' packages are there.
setup: $(VENV)/.environment-$(INSTALLER)
	@$(MAKE) --no-print-directory $(VENV)/.installed

run:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed $(VENV)/.runtime-$(INSTALLER)
	@exec $(BIN)/siltstone serve $(ARGS)

test: setup
	@$(BIN)/python -m tests.tiers now $(ARGS)

test-all: setup
	@$(BIN)/python -m tests.tiers all $(ARGS)

DEBIAN ?= trixie
DEBIAN_ROOT ?= $(or $(SILTSTONE_CACHE),.cache)/debian-$(DEBIAN)
test-debian:
	@tests/debian.sh '$(DEBIAN)' '$(DEBIAN_ROOT)' test ARGS='$(ARGS)'

# Without Spark its classes are Any. Stubs of compiled modules come from their sources.
WITHOUT_SPARK = $(if $(wildcard $(VENV)/lib/python3*/site-packages/pyspark),,--allow-subclassing-any --no-warn-return-any --no-warn-unused-ignores)
check: $(VENV)/.checkers-$(INSTALLER)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(WITHOUT_SPARK) .
	@$(BIN)/python -m tools.subjects

bench: setup
	@$(BIN)/python -m bench $(ARGS)

bench-record: setup
	@$(BIN)/python -m bench.clients $(ARGS)

bench-clean: setup
	@$(BIN)/python -m bench.clean $(ARGS)

REPO ?= .
DEMO := .cache/demo
$(DEMO)/kafka/__init__.py: requirements.lock
	@$(TARGET.$(INSTALLER)) '$(DEMO)' --quiet $(shell grep -o '^kafka-python==[0-9.]*' requirements.lock) && touch $@
# The broker and one client of Python's: no tools of the tests, no Spark.
demo:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed $(VENV)/.runtime-$(INSTALLER)
	@$(MAKE) --no-print-directory $(DEMO)/kafka/__init__.py
	@PYTHONPATH='$(DEMO)' $(BIN)/python -m examples.demo '$(REPO)'

demo-pipeline: setup
	@$(BIN)/python -m examples.pipeline_demo '$(REPO)'

KILLS ?= 2000
crash: setup
	@KILLS=$(KILLS) KILLS_SEED=$(SEED) $(BIN)/python -m pytest tests/clients/test_kills.py $(ARGS)

FRAMES ?= 10000000
fuzz: setup
	@FUZZ_FRAMES=$(FRAMES) FUZZ_SEED=$(SEED) $(BIN)/python -m pytest tests/fuzz $(ARGS)

DAMAGED ?= 3000
damage: setup
	@$(BIN)/python -m tests.simulator.every_byte
	@DAMAGED_FOLDERS=$(DAMAGED) DAMAGED_SEED=$(SEED) $(BIN)/python -m pytest -s tests/damage $(ARGS)

# Beside the ordinary build, not over it: a copy of the source with extensions of its own.
KERNEL_TOOLS := .cache/kernel-tools
SANITIZED := .cache/sanitized
$(KERNEL_TOOLS)/Cython: pyproject.toml | setup
	@$(TARGET.$(INSTALLER)) '$(KERNEL_TOOLS)' --quiet $(shell grep -o '\(cython\|setuptools\)==[0-9.]*' pyproject.toml)
	@touch $@
kernel-tools: $(KERNEL_TOOLS)/Cython
simulate-planted: $(KERNEL_TOOLS)/Cython
	@$(BIN)/python -m tests.simulator.planted --search $(ARGS)
kernels-sanitized: $(KERNEL_TOOLS)/Cython
	@rm -rf '$(SANITIZED)' && mkdir -p '$(SANITIZED)'
	@cp -r $(CODE) tests tools hatch_build.py pyproject.toml '$(SANITIZED)'
	@find '$(SANITIZED)' -name '*.so' -delete
	@PYTHONPATH='$(KERNEL_TOOLS)' $(BIN)/python hatch_build.py --sanitized '$(SANITIZED)'
	@PYTHON='$(CURDIR)/$(BIN)/python' SEED='$(SEED)' tests/damage/sanitized.sh '$(CURDIR)/$(SANITIZED)' $(ARGS)

large: setup
	@LARGE_EVERY=1 $(BIN)/python -m pytest -s tests/faults/test_large_requests.py $(ARGS)

SEEDS ?= 10000
FIRST ?= 0
simulate: setup
	@$(BIN)/python -m tests.simulator $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST)) $(if $(STEPS),--steps $(STEPS)) $(if $(IMAGES),--images $(IMAGES)) $(ARGS)

COVERAGE := .cache/coverage
$(COVERAGE)/coverage: Makefile | setup
	@$(TARGET.$(INSTALLER)) '$(COVERAGE)' --quiet coverage==7.17.5 && touch $@
simulate-coverage: SEEDS = 100
simulate-coverage: $(COVERAGE)/coverage
	@PYTHONPATH='$(COVERAGE)' $(BIN)/python -m tests.simulator.lines $(FIRST) $(SEEDS)

beside: SEEDS = 100
beside: setup
	@$(BIN)/python -m tests.simulator.beside --seeds $(SEEDS) --first $(FIRST) $(ARGS)

FOLDERS ?= 100
differential: setup
	@DIFFERENTIAL_FOLDERS=$(FOLDERS) DIFFERENTIAL_SEED=$(SEED) $(BIN)/python -m pytest -s tests/interop/test_cleaner_differential.py $(ARGS)

HOURS ?= 2
soak: setup
	@$(BIN)/python -m tests.soak --hours $(HOURS) $(ARGS)

SUITE ?=
compat: setup
	@$(BIN)/python -m tools.compat $(SUITE) $(ARGS)

docs: setup
	@$(BIN)/python -m tools.configuration
	@$(BIN)/python -m tools.compatibility
	@$(BIN)/python -m tools.console_tools
	@$(BIN)/python -m tools.rights
	@$(BIN)/python -m tools.metrics_page docs/metrics.md
	@$(BIN)/python -m tools.man_pages
	@$(BIN)/python -m tools.grafana docker/grafana/dashboards

figures: setup
	@$(BIN)/python -m tools.figures $(ARGS)

messages: setup jars
	@$(BIN)/python -m tools.messages $(foreach jar,clients group-coordinator share-coordinator transaction-coordinator,\
	    $(wildcard $(or $(SILTSTONE_CACHE),.cache)/kafka-4.4.0/kafka-$(jar)-[0-9]*.jar))

# Who asks for it wants to know what is missing: a skip is a failure, as in CI.
image-check: setup schemas $(if $(shell command -v promtool),,prometheus)
	@CI=true $(BIN)/python -m pytest tests/docker $(ARGS)

jars:
	@tests/kafka/jars.sh
	@tests/kafka/jars.sh tests/kafka/4.3.1 kafka-4.3.1
	@tests/kafka/jars.sh tests/connector connector-jars
	@tests/kafka/jars.sh tests/catalogue catalogue-jars
	@tests/kafka/jars.sh tests/delta delta-jars
	@tests/kafka/jars.sh tests/iceberg iceberg-jars

PROMETHEUS := $(or $(SILTSTONE_CACHE),.cache)/prometheus
prometheus: $(PROMETHEUS)/usr/bin/promtool
$(PROMETHEUS)/usr/bin/promtool:
	@mkdir -p '$(PROMETHEUS)'
	@cd '$(PROMETHEUS)' && apt-get download --quiet prometheus && dpkg --extract prometheus_*.deb . && rm prometheus_*.deb

SCHEMAS := $(or $(SILTSTONE_CACHE),.cache)/schemas
schemas: $(SCHEMAS)/kubernetes_validate
$(SCHEMAS)/kubernetes_validate: | setup
	@$(TARGET.$(INSTALLER)) '$(SCHEMAS)' --quiet 'grafana-foundation-sdk==1769699998!10.1.0' 'kubernetes-validate==1.37.0'

S3_SERVER := $(or $(SILTSTONE_CACHE),.cache)/s3-server
s3-server: $(S3_SERVER)/moto
$(S3_SERVER)/moto: | setup
	@$(TARGET.$(INSTALLER)) '$(S3_SERVER)' --quiet --no-deps -r tests/s3/requirements.txt

SPARK_CONNECT := $(or $(SILTSTONE_CACHE),.cache)/spark-connect
spark-connect: $(SPARK_CONNECT)/grpc_status
$(SPARK_CONNECT)/grpc_status: | setup
	@$(TARGET.$(INSTALLER)) '$(SPARK_CONNECT)' --quiet 'grpcio==1.78.2' 'grpcio-status==1.78.2' 'pandas==2.3.3'

# Other releases are put beside the pinned one, into folders that go before it. PySpark 4.1 leaves
# sockets to the collector of garbage.
SPARK ?= 4.1.4 4.3.0
test-spark-all: setup
	@$(BIN)/python -m pytest tests/pipeline -m spark $(ARGS)
	@set -e; for release in $(SPARK); do \
	  $(TARGET.$(INSTALLER)) ".cache/pyspark-$$release" --quiet "pyspark==$$release"; \
	  PYTHONPATH="$(CURDIR):$(CURDIR)/.cache/pyspark-$$release" $(BIN)/python -m pytest tests/pipeline \
	    -m 'spark and not connector' -W 'ignore:unclosed <socket:ResourceWarning' $(ARGS); \
	done

stream-kills: KILLS := $(if $(filter command line,$(origin KILLS)),$(KILLS),20)
stream-kills: setup
	@STREAM_KILLS=$(KILLS) $(BIN)/python -m pytest tests/pipeline/test_killed_stream.py $(ARGS)

table-histories: HISTORIES := $(if $(filter command line,$(origin HISTORIES)),$(HISTORIES),1000)
table-histories: setup
	@TABLE_FIRST=$(FIRST) TABLE_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest tests/pipeline/test_other_writers.py tests/pipeline/test_delta_package.py -k test_history $(ARGS)

sbom: $(VENV)/.runtime-$(INSTALLER)
	@mkdir -p dist
	@$(BIN)/python -m tools.sbom > dist/siltstone.cdx.json
	@echo dist/siltstone.cdx.json

# Tools of a release, in an environment of their own: a wheel needs none of the broker's packages.
RELEASE := .cache/release-tools$(if $(filter command line,$(origin PYTHON)),-$(notdir $(PYTHON)))
$(RELEASE)/.installed: Makefile
	@$(PYTHON) -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/pip install --quiet --disable-pip-version-check hatchling==1.33.0 \
	  $(shell grep -o '\(cython\|setuptools\)==[0-9.]*' pyproject.toml) \
	  $(shell grep -o 'ziglang==[0-9.]*' hatch_build.py) auditwheel==6.8.2
	@touch $@
$(RELEASE)/.checkers: $(RELEASE)/.installed
	@$(RELEASE)/bin/pip install --quiet --disable-pip-version-check zizmor==1.32.0 \
	  check-jsonschema==0.39.0
	@command -v actionlint >/dev/null || \
	  GOBIN='$(CURDIR)/$(RELEASE)/bin' go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	@touch $@
$(RELEASE)/.publishers: $(RELEASE)/.installed
	@$(RELEASE)/bin/pip install --quiet --disable-pip-version-check twine==7.0.0 pypi-attestations==0.0.30
	@touch $@

TAG ?=
release-notes: $(RELEASE)/.installed
	@$(RELEASE)/bin/python -m tools.release notes $(if $(TAG),--tag '$(TAG)')
sdist wheel: $(RELEASE)/.installed
	@$(RELEASE)/bin/python -m tools.release $@
release-check: $(RELEASE)/.checkers
	@$(RELEASE)/bin/python -m tools.release check $(ARGS)
# These three run in the workflow of a tag alone: they need what only the repository may do.
publish: $(RELEASE)/.publishers
	@$(RELEASE)/bin/pypi-attestations sign dist/*.whl dist/*.tar.gz
	@$(RELEASE)/bin/twine upload --attestations --non-interactive dist/*.whl dist/*.tar.gz dist/*.attestation
IMAGE ?= siltstone
MACHINE := $(shell uname -m)
image-push:
	@docker login --username "$$IMAGE_USER" --password-stdin '$(firstword $(subst /, ,$(IMAGE)))' <<<"$$IMAGE_PASSWORD"
	@docker buildx create --name siltstone --driver docker-container --use
	@docker buildx build --sbom=true --provenance=mode=max --push \
	  --build-arg SILTSTONE_COMMIT="$$(git rev-parse HEAD)" --tag '$(IMAGE):$(TAG)-$(MACHINE)' .
image-join:
	@docker login --username "$$IMAGE_USER" --password-stdin '$(firstword $(subst /, ,$(IMAGE)))' <<<"$$IMAGE_PASSWORD"
	@docker buildx imagetools create --tag '$(IMAGE):$(TAG)' '$(IMAGE):$(TAG)-x86_64' '$(IMAGE):$(TAG)-aarch64'

AUDIT := .cache/audit
$(AUDIT)/.installed: Makefile | setup
	@$(TARGET.$(INSTALLER)) '$(AUDIT)' --quiet 'bandit==1.9.4' 'pip-audit==2.10.1'
	@touch $@
# Not in .ci/run: what becomes known of a package today must not break the change of yesterday.
audit: $(AUDIT)/.installed
	@PYTHONPATH='$(AUDIT)' $(BIN)/python -m tools.audit

lock:
	@uv lock
	@uv export --quiet --locked --extra test --extra spark --extra oauth --no-emit-project --no-header --no-annotate \
	  --output-file requirements.lock
	@uv export --quiet --locked --extra test --extra oauth --no-emit-project --no-header --no-annotate \
	  --output-file tests/requirements.lock
	@uv export --quiet --locked --extra oauth --no-emit-project --no-header --no-annotate \
	  --output-file docker/requirements.lock

clean:
	@rm -rf .venv .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find $(CODE) tests tools bench examples -name __pycache__ -prune -exec rm -rf {} +
	@find $(CODE) '(' -name '*.so' -o -name '*.pyi' ')' -delete
