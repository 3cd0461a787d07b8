# `make` alone prints what there is. Everything runs in .venv, made by `make setup`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PY := .venv/bin/python
STAMP := .venv/.installed
PYTEST := $(PY) -m pytest
SEEDS ?= 5000
ROUNDS ?= 20
# so many processes run the fast tests, each with a Spark driver of its own (some 2 GB)
TEST_JOBS ?= 2
SEED ?= 1
HOURS ?= 0

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
test: setup ## the fast tests (Spark and Airflow included)
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile

.PHONY: slow
slow: setup ## the tests that take ten seconds or more (CKPT_SLOW=1/4 CKPT_SLOW_SEED=2: a portion of them)
	CKPT_SLOW=$${CKPT_SLOW:-only} $(PYTEST) -n $(TEST_JOBS) --dist loadfile --timeout 900

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
	CKPT_SLOW=all $(PYTEST) tests/docs

.PHONY: sim
sim: setup ## the coordinator simulation with many seeds (SEEDS=5000)
	CKPT_SLOW=all CKPT_SIM_SEEDS=$(SEEDS) $(PYTEST) tests/simulation -m "not chaos" --timeout 3600 -n $(TEST_JOBS)

.PHONY: chaos
chaos: setup ## kill -9 of real processes
	$(PYTEST) -m chaos --timeout 1800

.PHONY: workers
workers: setup ## JobMasters and workers in processes of their own: killed, frozen, told to leave, taken over
	CKPT_SLOW=all $(PYTEST) tests/workers -m "workers or not workers" --timeout 1800

.PHONY: mutants
mutants: setup ## deliberate defects, each of which a test must notice (CKPT_MUTANTS=fast: those without Spark)
	$(PY) -m tests.mutants

.PHONY: random-jobs
random-jobs: setup ## random jobs under random faults (ROUNDS=20 from SEED=1 on; HOURS=2: so many more)
	@set -e; seed=$(SEED); failed=0; until=$$((SECONDS + $(HOURS) * 3600)); \
	while :; do \
	  echo "== random jobs from seed $$seed on"; \
	  CKPT_RANDOM_SEED=$$seed CKPT_RANDOM_JOBS=$(ROUNDS) CKPT_RANDOM_CHANGES=$$(($(ROUNDS) / 2)) \
	    CKPT_RANDOM_OVERTAKEN=$$(($(ROUNDS) / 4)) CKPT_RANDOM_PROCESSES=$$(($(ROUNDS) / 4)) \
	    CKPT_RANDOM_RESTARTS=$$(($(ROUNDS) / 2)) CKPT_RANDOM_RECONFIGURING=$$(($(ROUNDS) / 2)) CKPT_RANDOM_UPGRADES=$$(($(ROUNDS) / 2)) CKPT_RANDOM_SPLITS=$(ROUNDS) \
	    $(PYTEST) tests/random_jobs -m random_jobs || failed=1; \
	  seed=$$((seed + $(ROUNDS))); \
	  [ $$SECONDS -lt $$until ] || exit $$failed; \
	done

.PHONY: soak
soak: setup ## jobs that take CKPT_SOAK_CHECKPOINTS=10000 checkpoints: what lies there does not grow (an hour)
	$(PYTEST) tests/soak -m soak -s --timeout 0

.PHONY: cluster
cluster: setup ## the tests on a standalone Spark cluster (started on this machine)
	$(PYTEST) -m cluster --timeout 1800

.PHONY: s3
s3: setup ## whole jobs on an S3 server on this machine (needs mvn; downloads 0.7 GB once)
	$(PYTEST) -m s3 --timeout 1800

.PHONY: kafka
kafka: setup ## whole jobs on a Kafka broker on this machine (needs mvn and javac; downloads 60 MB once)
	$(PYTEST) tests/kafka -m kafka --timeout 1800

.PHONY: tables
tables: setup ## sinks of tables beside Spark with Delta's own jar (needs mvn; downloads 90 MB once)
	$(PYTEST) -m tables --timeout 1800

.PHONY: sinks
sinks: setup ## every sink on its real target, and jobs with all of them killed at each step (hours)
	CKPT_SLOW=all $(PYTEST) tests/sinks tests/lakes -n $(TEST_JOBS) --dist loadfile
	$(PYTEST) tests/lakes -m tables --timeout 1800
	$(PYTEST) tests/kafka -m kafka --timeout 1800
	$(PYTEST) tests/sinks_together tests/airflow/test_orders_everywhere.py -m sinks --timeout 7200

.PHONY: airflow-real
airflow-real: setup ## the tests against a whole Airflow (started on this machine; one in parts, on PostgreSQL)
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	  echo "PostgreSQL is not installed, the tests on it are skipped. To get it (Debian, Ubuntu): apt-get install postgresql"
	@command -v chromium >/dev/null || \
	  echo "Chromium is not installed, the test in a browser is skipped. To get it (Debian): apt-get install --no-install-recommends chromium"
	$(PYTEST) -m airflow_real --timeout 1800

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
