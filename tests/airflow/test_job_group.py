"""Tasks of a group, as built when the Dag is read."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_ckpt import CheckpointedSparkJobGroup, InvalidInputError
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from tests.support.processes import ROOT

JOB = "no/such/file.py:job"


def group(dag_arguments: dict[str, Any] | None = None, **arguments: Any) -> DAG:
    with DAG("shop", schedule=None, **(dag_arguments or {})) as dag:
        CheckpointedSparkJobGroup("orders", job=JOB, **arguments)
    return dag


def task(dag: Any, task_id: str) -> Any:
    return dag.get_task(task_id)


def test_subtasks_are_mapped_over_the_plan_and_shown_by_name() -> None:
    dag = group(checkpoint_interval="5s", spark={"conf": {"a": "b"}})
    assert set(dag.task_ids) == {"orders.plan", "orders.subtask", "orders.coordinate"}
    mapped, coordinate = task(dag, "orders.subtask"), task(dag, "orders.coordinate")
    assert mapped.partial_kwargs["map_index_template"] == "{{ task.subtask }}"
    assert mapped.partial_kwargs["coordinate"] == "orders.coordinate"
    assert mapped.partial_kwargs["conf"] == {"a": "b"}
    assert mapped.upstream_task_ids == coordinate.upstream_task_ids == {"orders.plan"}
    assert coordinate.priority_weight > mapped.priority_weight
    assert coordinate.subtask_tasks == "orders.subtask"
    assert {task(dag, f"orders.{name}").ckpt_group for name in ("plan", "coordinate")} == {"orders"}


def test_standby_tasks_run_after_the_plan_and_the_subtasks_know_of_them() -> None:
    dag = group(standbys=2, lost_after="10s", subtask={"pool": "big"})
    first, mapped = task(dag, "orders.standby-1"), task(dag, "orders.subtask")
    assert {"orders.standby-1", "orders.standby-2"} < set(dag.task_ids)
    assert first.upstream_task_ids == {"orders.plan"}
    assert (first.pool, first.coordinate, first.ckpt_group) == ("big", "orders.coordinate", "orders")
    assert mapped.partial_kwargs["has_standbys"] is True
    listed = task(group(standbys=1, subtasks=["rows/0"]), "orders.rows-0")
    assert listed.has_standbys
    assert task(dag, "orders.coordinate").subtask_tasks == "orders.subtask"
    assert not task(group(subtasks=["rows/0"]), "orders.rows-0").has_standbys


def test_listed_subtasks_are_separate_tasks_with_their_own_arguments() -> None:
    own = {"history/0": {"pool": "big", "conf": {"spark.executor.memory": "8g"}, "retries": 9}, "rows": {}}
    dag = group(subtasks=own, spark={"conf": {"a": "b"}})
    first, second = task(dag, "orders.history-0"), task(dag, "orders.rows")
    assert (first.subtask, first.pool, first.retries) == ("history/0", "big", 9)
    assert first.conf == {"a": "b", "spark.executor.memory": "8g"}
    assert (second.subtask, second.pool, second.conf) == ("rows", "default_pool", {"a": "b"})
    coordinate = task(dag, "orders.coordinate")
    assert coordinate.subtasks == ["history/0", "rows"]
    assert coordinate.subtask_tasks == ["orders.history-0", "orders.rows"]


def test_a_nested_group_uses_full_task_ids() -> None:
    with DAG("shop", schedule=None) as dag, TaskGroup("outer"):
        CheckpointedSparkJobGroup("orders", job=JOB)
        CheckpointedSparkJobGroup("plain", job=JOB, prefix_group_id=False)
    coordinate = task(dag, "outer.orders.coordinate")
    assert (coordinate.ckpt_group, coordinate.subtask_tasks) == ("outer.orders", "outer.orders.subtask")
    assert task(dag, "coordinate").subtask_tasks == "subtask"


def test_retries_come_from_the_dag_or_else_from_the_group() -> None:
    def tries(dag: DAG) -> set[Any]:
        return {(dag_task.retries, dag_task.retry_delay) for dag_task in dag.tasks}

    assert tries(group()) == {(3, timedelta(seconds=10))}
    assert tries(group({"default_args": {"retries": 7}})) == {(7, timedelta(seconds=10))}
    assert tries(group(default_args={"retries": 5, "retry_delay": timedelta(0)})) == {(5, timedelta(0))}
    assert task(group(subtask={"retries": 50}), "orders.subtask").retries == 50


def test_a_groups_timing_applies_to_all_its_tasks() -> None:
    dag = group(poll="2s", silence=60, lost_after=timedelta(seconds=12), poll_interval=3)
    mapped = task(dag, "orders.subtask").partial_kwargs
    assert (mapped["poll"], mapped["silence"], mapped["poll_interval"]) == ("2s", 60, 3)
    given = {"poll": "2s", "silence": 60, "lost_after": timedelta(seconds=12)}
    assert task(dag, "orders.coordinate")._chosen == given


def test_deferrable_false_of_a_group_applies_to_its_tasks() -> None:
    """This suits an Airflow without a triggerer. ``coordinate`` needs the setting separately."""
    never = {"subtask": {"deferrable": False}, "coordinate": {"deferrable": False}}
    assert task(group(**never), "orders.subtask").partial_kwargs["deferrable"] is False
    dag = group(subtasks=["history", "rows/0"], **never)
    assert {task(dag, f"orders.{name}").is_deferrable for name in ("history", "rows-0", "coordinate")} == {False}
    assert task(group(subtasks=["rows/0"]), "orders.rows-0").is_deferrable


def test_a_group_can_be_serialized_and_chained() -> None:
    with DAG("shop", schedule=None) as dag:
        first = CheckpointedSparkJobGroup("first", job=JOB)
        first >> CheckpointedSparkJobGroup("second", job=JOB, subtasks=["rows/0"])
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(read.task_dict) == set(dag.task_ids)
    assert task(read, "second.plan").upstream_task_ids == {"first.subtask", "first.coordinate"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"restart_attempts": 3}, "give retries in"),
        ({"restart_delay": 3}, "give retry_delay in"),
        ({"silence": "soon"}, "silence"),
        ({"silence": "3s"}, r"silence of 3 s cannot be used.*Give 4\.2 s or more"),
        ({"poll": "10s", "lost_after": "20s"}, r"lost_after of 20 s.*Give 24 s or more"),
        ({"poll": 0}, "poll of 0 s cannot be used"),
        ({"subtask": {"silence": "1s"}}, "silence of 1 s"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"on_clear": "restart"}, "no such argument"),
        ({"deferrable": True}, r"no such argument: its tasks defer by themselves"),
        ({"conf": {}}, "spark-submit's: give it in spark="),
        ({"conn_id": "spark"}, "spark-submit's: give it in spark="),
        ({"retries": 5}, "Airflow's for a task: give it in default_args="),
        ({"pool": "big"}, "Airflow's for a task: give it in default_args="),
        ({"colour": "red"}, "a group has no such argument. spark= takes spark-submit's, default_args= Airflow's"),
        ({"spark": ["conf"]}, "spark=.*give a mapping of arguments"),
        ({"spark": {"deploy_mode": "cluster"}}, "run in client mode"),
        ({"subtasks": {"rows": {"deploy_mode": "cluster"}}}, "run in client mode"),
        ({"subtask": {"task_id": "rows"}}, "task_id is set by the group"),
        ({"coordinate": {"subtasks": ["rows"]}}, "subtasks is set by the group"),
        ({"subtasks": ["plan", "rows"]}, "the group has a task plan of its own: name its subtasks .plan/0."),
        ({"checkpoint_intervall": 3}, "Did you mean 'checkpoint_interval'"),
        ({"checkpoint_interval": "soon"}, "soon"),
        ({"stop_after": "1h", "drain_after": "2h"}, "stop_after"),
        ({"subtasks": ["history", "rows/0", "history/1"]}, "history/1 is named twice, once by its vertex history"),
        ({"subtasks": ["rows/0", "rows/0"]}, "rows/0 is named twice"),
        ({"standbys": -1}, "standbys"),
        ({"standbys": True}, "give a number of tasks that stand by"),
        ({"standbys": "2"}, "give a number of tasks that stand by"),
    ],
)
def test_invalid_arguments_are_refused_when_the_dag_is_parsed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        group(**arguments)
    assert issubclass(InvalidTaskArgumentError, InvalidInputError)


@pytest.mark.slow
def test_parsing_a_dag_imports_neither_the_job_nor_spark_nor_sinks() -> None:
    code = f"""
import sys
from airflow.sdk import DAG
import airflow_provider_ckpt as ckpt
with DAG("shop", schedule=None):
    ckpt.CheckpointedSparkJobGroup("orders", job={JOB!r})
    ckpt.CheckpointedSparkJobOperator(task_id="whole", job={JOB!r}, retry_policy=ckpt.ProgressRetryPolicy())
    ckpt.CheckpointSensor(task_id="wait", job_id="whole", deferrable=True)
    ckpt.CheckpointedJobStopOperator(task_id="stop", job_id="whole")
    ckpt.CheckpointedJobCleanupOperator(task_id="clean", job_id="whole")
    ckpt.CheckpointReleaseTrigger(job_id="whole")
heavy = ("pyspark", "pyarrow")
ours = ("sinks", "jobmaster", "coordinator", "partitions", "journal.state", "client.job_client")
print([name for name in (*heavy, *[f"airflow_provider_ckpt.{{one}}" for one in ours]) if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
