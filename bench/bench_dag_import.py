"""Time that the import of this package adds to a Dag file, each time Airflow's Dag processor reads it.

    python bench/bench_dag_import.py [--rounds 10]

Each round starts two processes, one after the other. Both import Airflow, its Spark provider's operator, a sensor and a
trigger; then the clock starts. Python's garbage collector is kept from the objects that Airflow has loaded. It takes a
tenth of a second for them, which would count for the import that happens to start it.

ours        imports the operator, the group, the sensors and the hook, and makes a Dag with each of them
theirs      makes a Dag with two operators of Airflow's Spark provider and a sensor of Airflow

Target: ours takes less than 100 ms; neither pyspark nor the job's file is imported.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

_BEFORE = """
import gc, sys, time
import airflow.sdk.bases.sensor, airflow.triggers.base
from airflow.sdk import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.sensors.filesystem import FileSensor
gc.collect()
gc.freeze()
began = time.perf_counter()
"""
_OURS = """
from airflow_provider_ckpt import CheckpointedSparkJobGroup, CheckpointedSparkJobOperator, CheckpointSensor
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
with DAG("ours", schedule=None):
    CheckpointedSparkJobOperator(task_id="job", job="jobs/orders.py:job", job_id="orders")
    CheckpointedSparkJobGroup(group_id="group", job="jobs/orders.py:job", job_id="grouped")
    CheckpointSensor(task_id="released", job_id="orders")
"""
_THEIRS = """
with DAG("theirs", schedule=None):
    SparkSubmitOperator(task_id="job", application="jobs/orders.py")
    SparkSubmitOperator(task_id="grouped", application="jobs/orders.py")
    FileSensor(task_id="released", filepath="/nowhere")
"""
_BEHIND = """
took = 1000 * (time.perf_counter() - began)
assert "pyspark" not in sys.modules and "jobs.orders" not in sys.modules
print("took", took)
"""


def took(text: str) -> float:
    """Run the text in a process of its own. Return its milliseconds."""
    found = subprocess.run([sys.executable, "-c", _BEFORE + text + _BEHIND], capture_output=True, text=True, check=True)
    [line] = [line for line in found.stdout.splitlines() if line.startswith("took ")]
    return float(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        found["ours"].append(took(_OURS))
        found["theirs"].append(took(_THEIRS))
    for name, times in found.items():
        print(f"{name}: median {statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})")


if __name__ == "__main__":
    main()
