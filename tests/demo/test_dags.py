"""The example Dags and their job load as in Airflow and in Spark's driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.job.chaining import build_graph
from airflow_provider_ckpt.job.loading.loading import load_job
from dags_examples.demo_support.airflow_home import EXAMPLES, environment

SHOW = """
import json, sys
from airflow.utils import db
db.initdb()
from airflow.dag_processing.dagbag import DagBag
bag = DagBag()
dags = {name: sorted(dag.task_ids) for name, dag in bag.dags.items()}
with open(sys.argv[1], "w") as file:
    json.dump({"errors": {str(k): str(v) for k, v in bag.import_errors.items()}, "dags": dags}, file)
"""


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Load the Dags in a separate process, because Airflow reads its environment once."""
    folder = tmp_path_factory.mktemp("airflow")
    env = environment(os.environ, home=folder / "home", root=folder / "root", lake=folder / "lake")
    subprocess.run([sys.executable, "-c", SHOW, str(folder / "bag.json")], env=env, check=True, capture_output=True)
    return json.loads((folder / "bag.json").read_text())


@pytest.mark.slow
@pytest.mark.airflow
def test_the_examples_folder_is_a_dags_folder(bag: Any) -> None:
    assert bag == {
        "errors": {},
        "dags": {
            "daily_revenue": ["clean", "revenue"],
            "flights": ["clean"],
            "flights_report": ["count_by_month", "released"],
            "orders_everywhere": ["orders", "until_now"],
            "orders_feed": ["feed", "until_now"],
            "prepared_orders": ["forget", "large", "prepare"],
        },
    }


def test_the_job_is_two_queries_with_history_inside_the_first() -> None:
    job = load_job(f"{EXAMPLES}/jobs/flights_job.py:job")
    job.validate()
    first, second = build_graph(job, inline=lambda uid: True).vertices
    assert (first.operators, first.sinks) == (("history", "live", "flights"), ("flights_table",))
    assert (second.operators, second.sinks) == (("daily_delays",), ("delays_table",))


def test_the_demo_does_not_use_the_airflow_and_spark_of_the_user(tmp_path: Path) -> None:
    user = {"AIRFLOW_HOME": "/mine", "SPARK_HOME": "/mine", "AWS_SECRET_ACCESS_KEY": "s", "PATH": "/bin", "HOME": "/h"}
    env = environment(user, home=tmp_path / "home", root=tmp_path / "root", lake=tmp_path / "lake")
    assert env["AIRFLOW_HOME"] == str(tmp_path / "home")
    assert not {"SPARK_HOME", "AWS_SECRET_ACCESS_KEY"} & env.keys()
    assert env["HOME"] == "/h"
    assert env["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/bin"]
