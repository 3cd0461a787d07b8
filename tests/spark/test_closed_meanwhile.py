"""The next attempt of a subtask begins while the previous attempt closes the log."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan
from airflow_provider_ckpt.spark.preparation.task_factory import SparkTaskFactory
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.log_state import LogState
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

V = SubtaskId("v/0")
GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), ("v",), (), bounded=True),), ())


def test_r11_the_next_attempt_of_a_closed_log_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(tmp_path)
    path = subtask_log_path("job", "v", 0)
    before = SubtaskLog(storage, path)
    before.load()
    before.open(AttemptId(1, 0, "before"))
    opens = SubtaskLog.open

    def late(log: SubtaskLog, *given: Any, **more: Any) -> LogState:
        before.end_of_partition()
        return opens(log, *given, **more)

    monkeypatch.setattr(SubtaskLog, "open", late)
    nothing: Any = None
    context: Any = SimpleNamespace(job_id="job", storage=storage, graph=GRAPH, supervised=None)
    logs: dict[SubtaskId, SubtaskLog] = {}
    plan = JobPlan(GRAPH, "streaming", {}, {}, JobDefinition("streaming", {}, {}, {}))
    prepared: Any = SimpleNamespace(plan=plan, sinks={})
    factory = SparkTaskFactory(context, prepared, JobState("job"), {}, {}, logs, nothing, nothing)
    assert factory.begin(V, AttemptId(1, 1, "next"), VertexPlan(0, ())) is None
    written = SubtaskLog(storage, path)
    written.load()
    assert [type(record).__name__ for _, record in written.records()] == ["Open", "EndOfPartition"]
    assert logs == {}
