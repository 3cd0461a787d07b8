"""Deletion of data of ended attempts (R5), and the cases in which it must not happen. No Spark runs here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.retention.collector import clean_up, collect_garbage, opened_attempts
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.sinks.errors import GarbageLeftError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import StorageReadOnlyError
from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.client.ended_job import GRAPH as ENDED_GRAPH
from tests.client.ended_job import EndedJob
from tests.support.books import books
from tests.support.partition_folders import data_folder

GRAPH = JobGraph(
    (
        JobVertex("a", ("a",), ("a",), ("a",), (), bounded=True),
        JobVertex("v", ("v",), (), (), ("out",), bounded=True, parallelism=2),
    ),
    (JobEdge("a__v", "a", "v", "v"),),
)
DATA = data_folder(partition_path("job", "a", 0), ["a__v"])
A, V, _ = GRAPH.subtasks
PUBLISHED, LEFT, MINE = "0001-before-0-n", "0001-before-1-n", "0002-mine0-0-n"


class CollectedJob:
    """A job whose first attempt has published one batch and left another, and whose second attempt has begun."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.asked: list[tuple[set[str], Collection[str]]] = []
        self.failure: Exception | None = None
        self.logs: dict[SubtaskId, SubtaskLog] = {
            name: self.opened(name, AttemptId(1, 0, "before")) for name in GRAPH.subtasks
        }
        inside = DATA[len(partition_path("job", "a", 0)) + 1 :]
        self.logs[A].append_batch(Batch(0, {}, files=(PartitionFile(f"{inside}/{PUBLISHED}/part", 1),)))
        self.logs[V].append_batch(Batch(0, {}, handles={"out": {"id": "h0", "rows": 1}}))
        self.logs = {name: self.opened(name, AttemptId(2, 0, f"mine{at}")) for at, name in enumerate(GRAPH.subtasks)}
        for name in (PUBLISHED, LEFT, MINE):
            storage.create(f"{DATA}/{name}/part", b"x")

    def opened(self, name: SubtaskId, attempt: AttemptId) -> SubtaskLog:
        log = SubtaskLog(self.storage, subtask_log_path("job", name.vertex, name.number))
        log.load()
        log.open(attempt)
        return log

    def collect(self, check_fenced: Callable[[], None] = lambda: None, graph: JobGraph = GRAPH) -> list[str]:
        """Run the collector; return the remaining data folders of the partition."""

        def ask(live_handles: set[str], live_attempts: Collection[str]) -> list[str]:
            self.asked.append((live_handles, live_attempts))
            if self.failure is not None:
                raise self.failure
            return []

        sink: Any = SimpleNamespace(collect_garbage=ask)
        collect_garbage(self.storage, "job", graph, self.logs, {"out": sink}, 2, check_fenced)
        return self.storage.list(DATA)


@pytest.fixture
def job(tmp_path: Path) -> CollectedJob:
    return CollectedJob(open_storage(f"memory://{tmp_path}"))


def test_r5_collecting_keeps_published_data_and_data_of_this_attempt(job: CollectedJob) -> None:
    assert job.collect() == [PUBLISHED, MINE]


def test_r5_leftovers_for_former_consumers_are_deleted(job: CollectedJob) -> None:
    """The consumers of "a" have changed twice. A batch that was published for the first ones is still in the log."""
    a, v = GRAPH.vertices
    graph = JobGraph((replace(a, layout=2), v), (replace(GRAPH.edges[0], folder="a__v"),))
    partition = partition_path("job", "a", 0)
    job.logs[A].append_batch(Batch(1, {}, files=(PartitionFile("layout-1/data/0002-mine0-1-n/part", 1),)))
    for folder, name in (
        ("layout-1", LEFT),
        ("layout-1", "0002-mine0-1-n"),
        ("layout-2", "0001-before-2-n"),
        ("layout-2", "0002-mine0-2-n"),
    ):
        job.storage.create(f"{partition}/{folder}/data/{name}/part", b"x")
    job.collect(graph=graph)
    left = [job.storage.list(f"{partition}/layout-{number}/data") for number in (1, 2)]
    assert left == [["0002-mine0-1-n"], ["0002-mine0-2-n"]]
    assert PUBLISHED in job.storage.list(DATA)


def test_r5_sinks_get_the_live_handles_and_attempts(job: CollectedJob) -> None:
    job.collect()
    [(handles, attempts)] = job.asked
    assert handles == {"h0"}
    assert ["0001-before" in attempts, "0002-mine" in attempts, "0003-next" in attempts] == [False, True, True]


def test_r5_output_is_deleted_only_after_a_later_attempt_of_the_subtask(
    job: CollectedJob,
) -> None:
    """A sibling subtask has a lower attempt number than the next attempt of another subtask, and is staging now."""
    job.logs[V] = job.opened(V, AttemptId(2, 1, "again"))
    job.logs[A] = job.opened(A, AttemptId(2, 1, "again"))
    job.storage.create(f"{DATA}/0002-01-again-1-n/part", b"x")
    assert job.collect() == [PUBLISHED, "0002-01-again-1-n"]
    [(_, attempts)] = job.asked
    fenced, sibling, current = "0002-mine1", "0002-mine2", "0002-01-again"
    assert [attempt in attempts for attempt in (fenced, sibling, current, "0002-02-next")] == [False, True, True, True]
    assert "not the name of an attempt" in attempts
    for look in (list, len):
        with pytest.raises(TypeError):
            look(attempts)


def test_output_that_a_sink_cannot_delete_is_logged_and_the_rest_goes(
    job: CollectedJob, caplog: pytest.LogCaptureFixture
) -> None:
    job.failure = GarbageLeftError(
        sink="out", job="job", count=1, path="staging/h9", cause="AccessDenied.", left=["h9"], deleted=[]
    )
    with caplog.at_level(logging.WARNING):
        assert job.collect() == [PUBLISHED, MINE]
    assert "staging/h9" in caplog.text


def test_any_other_failure_of_a_sink_ends_the_start(job: CollectedJob) -> None:
    job.failure = StorageReadOnlyError(uri="there", reason="AccessDenied")
    with pytest.raises(StorageReadOnlyError):
        job.collect()


def test_r4_output_staged_after_the_restored_position_is_not_live(job: CollectedJob) -> None:
    """The sink gets no discard request for it. The batch is void, and its attempt is fenced."""
    job.logs[V].open(AttemptId(3, 0, "back"), continues_at=0)
    job.collect()
    [(handles, attempts)] = job.asked
    assert (handles, "0001-before" in attempts) == (set(), False)


def test_r8_a_driver_whose_job_was_claimed_collects_nothing(job: CollectedJob) -> None:
    def fenced() -> None:
        raise FencedError(job_id="job", epoch=3, attempt="t3", worker="there", own_epoch=2)

    with pytest.raises(FencedError):
        job.collect(fenced)
    assert (job.storage.list(DATA), job.asked) == ([PUBLISHED, LEFT, MINE], [])


def test_r8_a_driver_whose_log_was_opened_collects_nothing(job: CollectedJob) -> None:
    job.opened(A, AttemptId(3, 0, "next"))
    with pytest.raises(LogFencedError):
        job.collect()
    assert (job.storage.list(DATA), job.asked) == ([PUBLISHED, LEFT, MINE], [])


def test_r5_staged_output_of_unknown_attempts_stays(job: CollectedJob) -> None:
    """A job of this id under another root may stage in the same target, whatever its epoch.

    A vertex that the job no longer has may have staged there, too.
    """
    job.opened(SubtaskId("gone/0"), AttemptId(1, 0, "ofgone"))
    job.collect()
    [(_, attempts)] = job.asked
    assert ["0001-another" in attempts, "0001-ofgone" in attempts, "0001-before" in attempts] == [True, False, False]


def test_r5_a_finished_job_deletes_only_its_own_staged_output(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path)
    sink = job.sink.bind(SinkContext("orders", "lake"))
    target, mine = open_storage(books(job.lake)), str(next(opened_attempts(job.storage, "orders")))
    for name in (f"{mine}-7-0a", "0001-another-7-0a"):
        target.create(f"orders/lake/staging/{name}/part", b"rows")
    clean_up(job.storage, "orders", ENDED_GRAPH, {"lake": sink})
    assert sink.staged() == {"0001-another-7-0a": [4]}
