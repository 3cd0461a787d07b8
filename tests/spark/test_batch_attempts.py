"""BATCH mode: an attempt counts if it has its end of data, and only then its consumers start (R23)."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.plan.job_plan import plan_job
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded.batch_runner import BatchRunner
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfData, Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.spark.faults import END, RefusedEntries
from tests.spark.harness import World
from tests.spark.jobs import stamped

pytestmark = pytest.mark.slow


def test_r23_output_of_an_attempt_without_end_of_data_is_void(world: World) -> None:
    expected = world.put_ids("history", 2, 3)
    died = world.run(stamped(world, 1), mode="batch", storage=RefusedEntries(world.storage, "stamps", END))
    assert died.status == "RESTARTING"
    log = SubtaskLog(world.storage, subtask_log_path(world.job_id, "stamps", 0))
    log.load()
    assert [type(record) for _, record in log.records()] == [Open, Batch]
    again = world.run(stamped(world, 2), mode="batch")
    assert (again.status, again.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert {row["attempt"] for row in world.released()} == {2}
    assert [type(r) for _, r in world.records("stamps") if isinstance(r, (Batch, EndOfData))] == [Batch, EndOfData]


def test_r23_a_vertex_fails_if_its_producer_has_no_end_of_data(world: World) -> None:
    world.put_ids("history", 1, 2)
    world.run(stamped(world, 1), mode="batch", storage=RefusedEntries(world.storage, "stamps", END))
    inbox: queue.Queue[Any] = queue.Queue()
    log = SubtaskLog(world.storage, subtask_log_path("other", "history", 0))
    log.load()
    consumer = SubtaskLog(world.storage, subtask_log_path("other", "stamps", 0))
    consumer.load()
    runner = _runner(world, {SubtaskId("history/0"): log, SubtaskId("stamps/0"): consumer}, inbox)
    runner._guard(VertexPlan(0, ()))
    message = inbox.get_nowait()
    assert isinstance(message, SubtaskFailed)
    assert "history did not reach the end of data" in message.cause
    assert not message.terminal


def _runner(world: World, logs: dict[SubtaskId, SubtaskLog], inbox: queue.Queue[Any]) -> BatchRunner:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    options, job = world.options(mode="batch"), stamped(world, 1)
    graph = plan_job(spark, job, options, None).graph
    context = RunContext(
        spark=spark,
        storage=world.storage,
        job=job,
        job_id="other",
        graph=graph,
        options=options,
        epoch=1,
        post=inbox.put,
        check_fenced=lambda: None,
    )
    unused: Any = None
    of_attempt = AttemptContext(context, SubtaskId("stamps/0"), AttemptId(1, 0, "a"), logs[SubtaskId("stamps/0")])
    return BatchRunner(of_attempt, graph.vertex("stamps"), logs.__getitem__, unused, {}, {}, unused)
