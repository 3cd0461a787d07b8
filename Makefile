# `make` alone prints what there is. Everything runs in .venv, made by `make setup`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PY := .venv/bin/python
STAMP := .venv/.installed
PYTEST := $(PY) -m pytest
# A test that hangs in native code ends its process: under xdist the others run on in a new one.
ALONE := $(PYTEST) -n 1
SEEDS ?= 5000
ROUNDS ?= 20
# processes that run tests. `make test` waits a lot, and each process needs 0.7 GB; with Spark it is 3 GB.
TEST_JOBS ?= $(if $(filter test test-times,$(MAKECMDGOALS)),4,2)
SEED ?= 1
# ORDER=7 runs tests in an order drawn from 7. MINUTES=5 starts tests for five minutes and lists which ran.
export CKPT_ORDER := $(or $(ORDER),$(CKPT_ORDER))
export CKPT_MINUTES := $(or $(MINUTES),$(CKPT_MINUTES))
# a run of many files keeps those of one file together; a drawn portion takes tests one by one
SPREAD := -n $(TEST_JOBS) --dist $(if $(CKPT_MINUTES),load --maxschedchunk 1,loadfile --no-loadscope-reorder)

# What is set in your shell for your own Airflow and Spark must not reach the tests. Nor PYTHONDONTWRITEBYTECODE: each
# process would compile what it imports, which for Airflow is seconds.
unexport $(filter AIRFLOW% SPARK% PYSPARK% HADOOP% AWS_%,$(.VARIABLES)) CKPT_STORAGE_OPTIONS PYTHONPATH PYTHONHOME
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## make .venv with everything in it (needs Python >= 3.10 and Java >= 17), once

$(STAMP): requirements-dev.lock setup.cfg pyproject.toml .ci/setup
	bash .ci/setup
	@touch $@

.PHONY: test
test: setup ## the tests without Spark and servers, and tests/smoke, which starts each of them once (minutes)
	$(PYTEST) $(SPREAD)

.PHONY: test-all
test-all: setup ## `make test` and `make slow` in one run
	CKPT_SLOW=all $(PYTEST) $(SPREAD) --timeout 900

.PHONY: test-times
test-times: setup ## `make test`, and tables of what it costs, by kind, folder and file (CKPT_SLOW=all: of `make test-all`)
	mkdir -p build
	CKPT_TIMINGS=build/test-times.jsonl $(PYTEST) $(SPREAD) --timeout 900
	$(PY) -m tests.support.timings build/test-times.jsonl

.PHONY: slow
slow: setup ## the tests with Spark or servers, and those that take seconds (an hour)
	CKPT_SLOW=only $(PYTEST) $(SPREAD) --timeout 900

.PHONY: demo
demo: setup ## a job with history and a live feed, on this machine
	$(PY) -m dags_examples.demo

.PHONY: lint
lint: setup ## ruff: style and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

.PHONY: format
format: setup ## let ruff put the code in order
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: type
type: setup ## mypy --strict over the package and the tests
	$(PY) -m mypy

.PHONY: docs
docs: setup ## run the examples in README.md and docs/
	CKPT_SLOW=all $(ALONE) tests/docs

.PHONY: sim
sim: setup ## the coordinator simulation with many seeds (SEEDS=5000)
	CKPT_SLOW=all CKPT_SIM_SEEDS=$(SEEDS) $(PYTEST) tests/simulation $(SPREAD) -m "not chaos" --timeout 3600

.PHONY: chaos
chaos: setup ## kill -9 of real processes
	CKPT_SLOW=all $(ALONE) -m chaos --timeout 1800

.PHONY: workers
workers: setup ## JobMasters and workers in processes of their own: killed, frozen, told to leave, taken over
	CKPT_SLOW=all $(ALONE) tests/workers -m "workers or not workers" --timeout 1800

.PHONY: mutants
mutants: setup ## deliberate defects, each of which a test must notice (hours)
	$(PY) -m tests.mutants --seed $(SEED) $(if $(CKPT_MINUTES),--no-baseline --minutes $(CKPT_MINUTES))

.PHONY: mutants-fast
mutants-fast: setup ## those that `make test` must notice; it must pass without them (MINUTES=5: as many as fit)
	CKPT_MUTANTS=fast $(PY) -m tests.mutants --no-baseline --seed $(SEED) $(if $(CKPT_MINUTES),--minutes $(CKPT_MINUTES))

.PHONY: fuzz
fuzz: setup ## damaged files: each reader accepts or refuses them by name (ROUNDS=20 from SEED=1 on)
	CKPT_SLOW=all CKPT_FUZZ_FIRST=$(SEED) CKPT_FUZZ_SEEDS=$(ROUNDS) $(PYTEST) tests/fuzz $(SPREAD) --timeout 900

.PHONY: random-jobs
random-jobs: setup ## random jobs under random faults (ROUNDS=20 from SEED=1 on; MINUTES=120 ROUNDS=2000: for two hours)
	CKPT_SLOW=all CKPT_RANDOM_SEED=$(SEED) CKPT_RANDOM_JOBS=$(ROUNDS) CKPT_RANDOM_CHANGES=$$(($(ROUNDS) / 2)) \
	  CKPT_RANDOM_OVERTAKEN=$$(($(ROUNDS) / 4)) CKPT_RANDOM_PROCESSES=$$(($(ROUNDS) / 4)) \
	  CKPT_RANDOM_RESTARTS=$$(($(ROUNDS) / 2)) CKPT_RANDOM_RECONFIGURING=$$(($(ROUNDS) / 2)) \
	  CKPT_RANDOM_UPGRADES=$$(($(ROUNDS) / 2)) CKPT_RANDOM_SPLITS=$(ROUNDS) \
	  CKPT_RANDOM_BOUNDS=$$(($(ROUNDS) / 4)) CKPT_RANDOM_TABLES=$$(($(ROUNDS) / 2)) \
	  CKPT_RANDOM_VALUES=$$(($(ROUNDS) / 4)) CKPT_RANDOM_PLANS=$$(($(ROUNDS) / 4)) \
	  $(PYTEST) tests/random_jobs $(SPREAD) -m random_jobs --timeout 900

.PHONY: soak
soak: setup ## jobs that take CKPT_SOAK_CHECKPOINTS=10000 checkpoints: what lies there does not grow (an hour)
	CKPT_SLOW=all $(PYTEST) tests/soak -m soak -s --timeout 0

.PHONY: cluster
cluster: setup ## the tests on a standalone Spark cluster (started on this machine)
	CKPT_SLOW=all $(ALONE) -m cluster --timeout 1800

.PHONY: s3
s3: setup ## whole jobs on an S3 server on this machine (needs mvn; downloads 0.7 GB once)
	CKPT_SLOW=all $(ALONE) -m s3 --timeout 1800

.PHONY: kafka
kafka: setup ## whole jobs on a Kafka broker on this machine (needs mvn and javac; downloads 60 MB once)
	CKPT_SLOW=all $(ALONE) tests/kafka -m kafka --timeout 1800

.PHONY: tables
tables: setup ## sinks of tables beside Spark with Delta's own jar (needs mvn; downloads 90 MB once)
	CKPT_SLOW=all $(ALONE) -m tables --timeout 1800

.PHONY: sinks
sinks: setup ## every sink on its real target, and jobs with all of them killed at each step (hours)
	CKPT_SLOW=all $(PYTEST) tests/sinks tests/lakes $(SPREAD)
	CKPT_SLOW=all $(ALONE) tests/lakes -m tables --timeout 1800
	CKPT_SLOW=all $(ALONE) tests/kafka -m kafka --timeout 1800
	CKPT_SLOW=all $(ALONE) tests/sinks_together tests/airflow/test_orders_everywhere.py -m sinks --timeout 7200

.PHONY: airflow-real
airflow-real: setup ## the tests against a whole Airflow (started on this machine; one in parts, on PostgreSQL)
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  echo "PostgreSQL is not installed, the tests on it are skipped. To get it (Debian, Ubuntu): apt-get install postgresql"
	@command -v chromium >/dev/null || \
	  echo "Chromium is not installed, the test in a browser is skipped. To get it (Debian): apt-get install --no-install-recommends chromium"
	CKPT_SLOW=all $(ALONE) -m airflow_real --timeout 1800

.PHONY: bench
bench: setup ## measure; prints tables
	@set -e; for script in bench/bench_*.py; do echo "== $$script"; $(PY) "$$script"; done

.PHONY: lock
lock: setup ## resolve requirements-dev.lock anew, for every supported Python
	$(PY) -m uv pip compile setup.cfg --extra dev --universal --python-version 3.10 --no-emit-index-url \
	  --no-annotate --upgrade --custom-compile-command "make lock" -o requirements-dev.lock

.PHONY: ci
ci: ## what CI does, from nothing (makes .venv anew)
	bash .ci/run

.PHONY: clean
clean: ## remove .venv, caches and build output
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
