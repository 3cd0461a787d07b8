"""Leftovers of attempts that later attempts of the same subtask replace under one driver."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import BoundSink, SinkContext
from airflow_provider_ckpt.spark.preparation import task_factory
from airflow_provider_ckpt.spark.preparation.task_factory import SparkTaskFactory
from airflow_provider_ckpt.spark.task.outputs import delete_leftovers
from airflow_provider_ckpt.storage.errors import StorageReadOnlyError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

V = SubtaskId("v/0")
GRAPH = JobGraph((JobVertex("v", ("v",), ("v",), ("v",), (), bounded=True),), ())
DATA = "p/a__b/data"
STAGING = "job/out/staging"
FIRST, SECOND, THIRD = (AttemptId(3, number, "aaaa") for number in range(3))
PUBLISHED, VOID, LEFT = f"{FIRST}-1-0a", f"{FIRST}-2-0a", f"{SECOND}-2-0b"
STAYS = [PUBLISHED, f"{THIRD}-2-0c", f"{AttemptId(3, 0, 'sibling')}-2-0d", "0001-another-1-0e", "of somebody else"]


class Sinks:
    """A subtask in its third attempt. The first one has published two batches, the second of which is void."""

    def __init__(self, base: Path) -> None:
        self.target = FileFolders.open(Location(f"memory://{base}")).books
        self.out: BoundSink = FileSink(f"memory://{base}").bind(SinkContext("job", "out"))
        for name in (*STAYS, VOID, LEFT):
            self.target.create(f"{STAGING}/{name}/part-0", b"rows")
        self.log = SubtaskLog(self.target, "log")
        self.log.load()
        self.log.open(FIRST)
        for number, name in ((1, PUBLISHED), (2, VOID)):
            self.log.append_batch(Batch(number, {}, handles={"out": {"id": name, "rows": 1}}))
        self.log.open(SECOND, continues_at=2)
        self.log.open(THIRD)

    def delete(self, **others: BoundSink) -> list[str]:
        delete_leftovers(self.target, self.log, [], {**others, "out": self.out})
        return self.target.list(STAGING)


@pytest.fixture
def sinks(tmp_path: Path) -> Sinks:
    return Sinks(tmp_path)


def test_r5_unpublished_data_of_earlier_attempts_is_deleted(tmp_path: Path) -> None:
    storage = open_storage(f"memory://{tmp_path}")
    first, second, third = (AttemptId(3, number, "aaaa") for number in range(3))
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(first)
    folders = {attempt: f"{attempt}-{number}-0a1b2c3d" for attempt, number in ((first, 7), (second, 8), (third, 9))}
    torn = f"{first}-6-0a1b2c3d"
    for name in (*folders.values(), torn, "of somebody else"):
        storage.create(f"{DATA}/{name}/part-0", b"rows")
        storage.create(f"scratch/{name}/part-0", b"rows")
    log.append_batch(Batch(7, {}, files=(PartitionFile(f"a__b/data/{folders[first]}/part-0", 4),)))
    log.open(second)

    delete_leftovers(storage, log, [DATA, "scratch"], {})  # as late as possible: the third attempt has begun
    assert sorted(storage.list(DATA)) == sorted([*folders.values(), "of somebody else"])
    kept_copies = sorted([folders[first], folders[second], folders[third], "of somebody else"])
    assert sorted(storage.list("scratch")) == kept_copies

    log.open(third)
    delete_leftovers(storage, log, [DATA, "scratch"], {})
    assert sorted(storage.list(DATA)) == sorted([folders[first], folders[third], "of somebody else"])


def test_r5_unpublished_staged_output_of_earlier_attempts_is_deleted(sinks: Sinks) -> None:
    """A sink is shared by the subtasks of its vertex, and by jobs of this id under other roots.

    A void batch is never released (R4).
    """
    assert sinks.delete() == sorted(STAYS)


class Refusing(BoundSink):
    """A sink that fails in ``staged``, or at the deletion of each id."""

    def __init__(self, error: Exception, ids: list[str] | None = None) -> None:
        self.error, self.ids = error, ids
        self.asked: list[str] = []

    stage = release = last_released = collect_garbage = None  # type: ignore[assignment]

    def staged(self) -> dict[str, list[int]]:
        if self.ids is None:
            raise self.error
        return {name: [1] for name in self.ids}

    def delete_staged(self, ids: object) -> None:
        self.asked.append(str(ids))
        raise self.error


@pytest.mark.parametrize("error", [StorageReadOnlyError(uri="there", reason="AccessDenied"), ValueError("a bug")])
def test_a_sink_that_cannot_list_staged_output_does_not_stop_others(
    sinks: Sinks, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert sinks.delete(broken=Refusing(error)) == sorted(STAYS)
    assert f"sink broken stays for now: {error}" in caplog.text


def test_a_failed_delete_in_a_sink_does_not_stop_others(sinks: Sinks, caplog: pytest.LogCaptureFixture) -> None:
    held = Refusing(StorageReadOnlyError(uri="there", reason="AccessDenied"), [VOID, LEFT, PUBLISHED])
    with caplog.at_level(logging.WARNING):
        assert sinks.delete(held=held) == sorted(STAYS)
    assert held.asked == [str([LEFT]), str([VOID])]
    assert f"{LEFT}, staged in sink held, cannot be deleted" in caplog.text


def test_r8_an_attempt_fenced_during_the_clean_up_stops_deleting(sinks: Sinks) -> None:
    with pytest.raises(LogFencedError):
        sinks.delete(first=Refusing(LogFencedError(log="log", attempt="0004-x", epoch=4)))
    assert LEFT in sinks.target.list(STAGING)


def test_r8_a_fenced_attempt_deletes_no_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(f"memory://{tmp_path}")
    log, successor = SubtaskLog(storage, "log"), SubtaskLog(storage, "log")
    log.load()
    log.open(SECOND)
    successor.load()
    successor.open(THIRD)
    deleted: list[SubtaskLog] = []
    context: Any = SimpleNamespace(epoch=3, graph=GRAPH, check_fenced=lambda: None)
    streaming: Any = SimpleNamespace(outputs=lambda attempt: SimpleNamespace(delete_leftovers=deleted.append))
    plan = SimpleNamespace(graph=SimpleNamespace(vertices=()), schemas={}, mode="streaming")
    prepared: Any = SimpleNamespace(plan=plan)
    nothing: Any = None
    monkeypatch.setattr(task_factory, "make_streaming_factory", lambda *given: streaming)
    factory = SparkTaskFactory(context, prepared, JobState("job"), {}, {}, {V: log}, nothing, nothing)
    monkeypatch.setattr(SparkTaskFactory, "_make", lambda *given: None)
    with pytest.raises(LogFencedError):
        factory.make(V, SECOND, VertexPlan(0, ()), restores=False)
    assert deleted == []
