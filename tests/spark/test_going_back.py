"""Decisions that a start takes from the journal: the restore point (R4, R6, R9) and earlier decisions (R11, R12).

No Spark runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError, SubtaskLogLostError
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import (
    RecoveryPoint,
    find_recovery_point,
    interrupted_restore,
)
from airflow_provider_ckpt.jobmaster.recovery.restore import RestorePoint, restore_point, restored_event
from airflow_provider_ckpt.jobmaster.recovery.restored_state import restored
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.query.sources.freezing import freeze_sources
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles, freeze
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.storage.layout import subtask_log_path, subtask_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfPartition
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.support.definitions import STREAMING

GRAPH = JobGraph(tuple(JobVertex(uid, (uid,), (uid,), (), (), bounded=False) for uid in ("a", "b")), ())
NO_SPARK: Any = None


class RestoredJob:
    """A job of two vertices, each of which has published batch 4, followed by a checkpoint."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.journal = Journal(storage, "job")
        self.journal.claim("t", Worker(), 0.0)
        self.journal.write(ev.JobCreated("job", GRAPH, "streaming", SubmittedOptions(), 0.0))
        self.journal.write(ev.PlanRecorded(GRAPH, {}, 0.0, STREAMING))
        for uid in ("a", "b"):
            self.attempt(uid, 1)
            self.log(uid).append_batch(Batch(4, {}))

    def log(self, uid: str, epoch: int = 1, continues_at: int | None = None) -> SubtaskLog:
        """Return the log of the subtask, opened by the driver of the epoch."""
        log = SubtaskLog(self.storage, subtask_log_path("job", uid, 0))
        log.load()
        if log.state.opened is None or log.state.opened.epoch < epoch:
            log.open(AttemptId(epoch, 0, "x"), continues_at)
        return log

    def attempt(self, uid: str, epoch: int, batches: int = 5) -> None:
        """Write a complete Spark folder with ``batches`` batches for the driver of the epoch."""
        home = f"{subtask_path('job', uid, 0)}/spark"
        for number in range(batches):
            for name in ("offsets", "commits"):
                self.storage.create(f"{home}/{epoch:04d}-x/{name}/{number}", b"v1")
        AttemptFolders(self.storage, home).create(AttemptId(epoch, 0, "x"), None)

    def complete(self, number: int, *, batch: int = 4, released: bool = True) -> JobState:
        snapshot = Snapshot(position=2, batch_id=batch)
        subtasks = {SubtaskId.of(uid, 0): snapshot for uid in ("a", "b")}
        self.journal.write(ev.CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))
        if released:
            self.journal.write(ev.CheckpointReleased(number, 1.0, {}))
        return self.journal.state

    def point(self, number: int) -> RestorePoint | None:
        return restore_point(self.storage, "job", f"chk-{number}", self.journal.state)

    def interrupted(self) -> RestorePoint | None:
        state = self.journal.state
        return interrupted_restore(self.storage, "job", state, state.graph(), self.logs(), "streaming")

    def start(self, *, is_anew: bool = False, asked: RestorePoint | None = None) -> RecoveryPoint:
        state = self.journal.state
        return find_recovery_point(
            self.storage, "job", state, state.graph(), "streaming", from_scratch=is_anew, requested=asked
        )

    def logs(self) -> dict[SubtaskId, SubtaskLog]:
        logs = {}
        for uid in ("a", "b"):
            logs[SubtaskId.of(uid, 0)] = SubtaskLog(self.storage, subtask_log_path("job", uid, 0))
            logs[SubtaskId.of(uid, 0)].load()
        return logs


@pytest.fixture
def job(tmp_path: Path) -> RestoredJob:
    return RestoredJob(open_storage(f"memory://{tmp_path}"))


# ---- the restore point


def test_r4_a_restore_keeps_entries_up_to_the_barrier(job: RestoredJob) -> None:
    job.complete(1)
    point = job.point(1)
    assert point is not None
    assert point.continues_at(SubtaskId("a/0")) == 3  # the barrier is entry 2
    assert point.continues_at(SubtaskId("started since/0")) == 1


def test_r9_a_checkpoint_below_the_last_one_is_refused(job: RestoredJob) -> None:
    job.complete(1)
    job.complete(2)
    with pytest.raises(RestoreRefusedError, match="checkpoint 2 was completed after it"):
        job.point(1)


@pytest.mark.parametrize("batch", [5, 400], ids=["the next one", "long ago"])
def test_r6_a_checkpoint_with_purged_state_is_refused_by_name(job: RestoredJob, batch: int) -> None:
    job.complete(1, batch=batch)
    with pytest.raises(RestoreRefusedError, match="purged the state of 'a'"):
        job.point(1)


@pytest.mark.parametrize(("batch", "dropped"), [(3, {}), (4, {"a": {"history": 4}})], ids=["behind it", "in it"])
def test_r4_a_source_stays_dropped_if_its_end_is_in_the_checkpoint(
    job: RestoredJob, batch: int, dropped: dict[str, dict[str, int]]
) -> None:
    job.journal.write(ev.SourceDropped("a", "history", 4, 0.5))
    state = job.complete(1, batch=batch)
    event = restored_event(RestorePoint(1, state.checkpoints[1]), state, 2.0)
    assert event.dropped == dropped


def restore_subtask(job: RestoredJob, uid: str) -> None:
    """Let the driver of epoch 2 restore one subtask: its log and its folder."""
    job.log(uid, 2, 3)
    job.attempt(uid, 2)


def restore_half(job: RestoredJob, uid: str) -> None:
    """Let the driver of epoch 2 die before it has completed the subtask's folder."""
    job.log(uid, 2, 3)


@pytest.mark.parametrize("other", [None, restore_half], ids=["not opened", "without a folder"])
def test_r4_an_interrupted_restore_is_repeated(
    job: RestoredJob, other: Callable[[RestoredJob, str], None] | None
) -> None:
    job.complete(1)
    job.journal.claim("t2", Worker(), 1.0)
    job.journal.write(ev.Restored(1, {}, 2.0))
    restore_subtask(job, "a")
    if other is not None:
        other(job, "b")
    point = job.interrupted()
    assert point is not None
    assert point.checkpoint == 1
    if other is None:
        restore_subtask(job, "b")
    else:
        job.attempt("b", 2)
    assert job.interrupted() is None


@pytest.mark.parametrize("splits", [True, False])
def test_r21_a_log_reused_by_a_rescale_is_no_interrupted_restore(job: RestoredJob, splits: bool) -> None:
    """The driver died after the commit and before the new subtask had opened its log.

    "b" is a subtask of a source with splits. For any other vertex the state means an interrupted restore.
    """
    job.journal.claim("t2", Worker(), 1.0)
    job.journal.write(ev.Restored(0, {}, 2.0, from_scratch=True))
    vertices = (GRAPH.vertex("a"), replace(GRAPH.vertex("b"), splits=splits))
    job.journal.write(ev.PlanRecorded(JobGraph(vertices, ()), {}, 2.0, STREAMING))
    restore_subtask(job, "a")
    assert (job.interrupted() is None) is splits


def test_r4_a_run_chooses_its_recovery_point(
    job: RestoredJob,
) -> None:
    state = job.complete(1)
    asked = RestorePoint(1, state.checkpoints[1])
    assert job.start() == RecoveryPoint(None)
    assert job.start(asked=asked) == RecoveryPoint(asked)
    job.journal.claim("t2", Worker(), 1.0)
    job.journal.write(ev.Restored(1, {}, 2.0))
    restore_half(job, "a")
    assert job.start() == RecoveryPoint(asked, is_journaled=True)
    assert job.start(asked=asked) == RecoveryPoint(asked), "it is another restore, which is journaled separately"
    assert job.start(is_anew=True, asked=asked) == RecoveryPoint(RestorePoint(1, None))
    job.complete(2)
    assert job.start() == RecoveryPoint(None), "every subtask was restored"


# ---- earlier decisions


def test_r9_r12_the_coordinator_resumes_from_the_journal(job: RestoredJob) -> None:
    job.complete(1)
    job.complete(2, released=False)
    job.complete(3, released=False)
    job.journal.write(ev.RequestAnswered("r", "drain", RequestOutcome.parse("accepted"), 2.0))
    job.journal.write(ev.SourceDropped("a", "history", 4, 0.5))
    job.journal.write(ev.CheckpointTriggered(7, 3.0, "checkpoint"))
    state = restored(job.journal.state)
    assert (state.last_triggered, state.last_completed, state.last_released) == (7, 3, 1)
    assert state.unreleased == (2, 3)
    assert state.draining
    assert state.dropped == {"a": ("history",)}
    assert {uid: snapshot.batch_id for uid, snapshot in state.snapshots.items()} == {"a/0": 4, "b/0": 4}


def test_r11_the_end_of_a_source_is_frozen_once_for_all_attempts(job: RestoredJob) -> None:
    """The current files of the folder do not matter: the driver does not even list them."""
    freeze(job.storage, "job/frozen/history.json", "history", ["file:///in/a.parquet"])
    job.journal.write(ev.SourceFrozen("history", "frozen/history.json", 1, 0.0))
    job.journal.write(ev.SourceFrozen("endless", None, 0, 0.0))
    reads = {"history": SourceReads(paths=["/in"]), "endless": SourceReads("rate")}
    frozen = freeze_sources(
        NO_SPARK,
        job.storage,
        "job",
        OwnedJournal(job.journal),
        reads,
        {},
        streaming=True,
        allow_empty=(),
        waits=(),
        warn=print,
    )
    assert frozen == {"history": FrozenFiles("history", ("file:///in/a.parquet",))}


# ---- a log that lost its end


def open_all(job: RestoredJob) -> None:
    journal = Journal(job.storage, "job")
    epoch = journal.claim("t2", Worker(), 9.0)
    open_logs(OwnedJournal(journal), job.logs(), epoch, "streaming", None)


def test_r11_the_log_of_a_finished_subtask_has_its_end(job: RestoredJob) -> None:
    """The subtask would never be deployed again, and its consumers would wait for its end forever."""
    job.log("a").end_of_data("finish")
    job.log("a").end_of_partition()
    job.journal.write(ev.SubtaskFinished(SubtaskId("a/0"), "0001-x", 1.0))
    open_all(job)
    job.storage.delete(f"{subtask_log_path('job', 'a', 0)}/{job.log('a').position - 1:08d}.json")
    with pytest.raises(SubtaskLogLostError, match=r"a/0.* has no end"):
        open_all(job)
    assert {log.state.opened.epoch for log in job.logs().values() if log.state.opened} == {1, 2}, "no log was opened"


def test_r15_a_partition_ended_during_a_take_over_stays_ended(job: RestoredJob) -> None:
    """The driver appends nothing after the end of a partition, because no consumer reads further."""
    before = job.log("a")
    before.end_of_data("finish")
    loaded = job.logs()
    journal = Journal(job.storage, "job")
    epoch = journal.claim("t2", Worker(), 9.0)
    before.end_of_partition()
    attempts = open_logs(OwnedJournal(journal), loaded, epoch, "streaming", None)
    assert set(attempts) == {SubtaskId("b/0")}
    assert journal.state.finished == {SubtaskId("a/0")}
    assert isinstance(job.log("a").records(0)[-1][1], EndOfPartition)
    open_all(job)  # the next driver finds it in the same state
    assert isinstance(job.log("a").records(0)[-1][1], EndOfPartition)
