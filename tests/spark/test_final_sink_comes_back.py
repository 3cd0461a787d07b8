"""A sink with release="final" that was dropped with --allow-non-restored-state and has returned.

docs/changes.md: "a sink with release="final" may be dropped together with what it has staged".
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.sink_releases import SinkReleases
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.journal.sink_progress import SinkProgress
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.log_truncation import LogTruncation
from airflow_provider_ckpt.subtasklog.needed import log_head
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.support.release_recorder import ReleaseRecorder

GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), (), ("s", "other"), bounded=True),), ())
(V,) = GRAPH.subtasks


def publish(log: SubtaskLog, number: int, *sinks: str) -> None:
    log.append_batch(
        Batch(number, {"o": f"{number}"}, handles={uid: {"id": f"{uid}{number}", "rows": 1} for uid in sinks})
    )


def test_output_dropped_with_a_final_sink_is_not_released_on_its_return() -> None:
    storage = open_storage("memory:///rev-final-sink")
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(AttemptId(1, 0, "a"))  # run 1: both sinks
    for number in range(4):
        publish(log, number, "s", "other")
    first = log.barrier(1, 1)
    log.open(AttemptId(2, 0, "b"))  # run 2: without "s"; "other" has released everything
    head = log_head(log.records(), retained=[first.position], unreleased_from=first.position, consumers=[])
    LogTruncation(storage, "log", lambda: None).truncate(head, first.position)
    again = SubtaskLog(storage, "log")
    again.load()
    again.open(AttemptId(3, 0, "c"))  # run 3: "s" is back
    publish(again, 4, "s", "other")
    again.end_of_data("finish")
    last = CheckpointCompleted(2, 0.0, 1.0, "final", {V: again.barrier(3, 2)}, {})
    sink = ReleaseRecorder()
    policies = ReleasePolicies(final_only=frozenset({"s"}))
    sinks: Any = {"s": sink}
    releases = SinkReleases("job", lambda: GRAPH, {V: again}, sinks, policies)
    releases.carry_out("s", last, {"s": SinkProgress(epoch=3)})
    assert sink.released == ["s4"]
