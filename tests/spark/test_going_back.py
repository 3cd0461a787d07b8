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


class House:
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
        found = {}
        for uid in ("a", "b"):
            found[SubtaskId.of(uid, 0)] = SubtaskLog(self.storage, subtask_log_path("job", uid, 0))
            found[SubtaskId.of(uid, 0)].load()
        return found


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(open_storage(f"memory://{tmp_path}"))


# ---- the restore point


def test_r4_what_a_checkpoint_covers_stays_its_barrier_included(house: House) -> None:
    house.complete(1)
    point = house.point(1)
    assert point is not None
    assert point.continues_at(SubtaskId("a/0")) == 3  # the barrier is entry 2
    assert point.continues_at(SubtaskId("started since/0")) == 1


def test_r9_a_checkpoint_below_the_last_one_is_refused(house: House) -> None:
    house.complete(1)
    house.complete(2)
    with pytest.raises(RestoreRefusedError, match="checkpoint 2 was completed after it"):
        house.point(1)


@pytest.mark.parametrize("batch", [5, 400], ids=["the next one", "long ago"])
def test_r6_a_checkpoint_whose_state_spark_has_purged_is_refused_by_name(house: House, batch: int) -> None:
    house.complete(1, batch=batch)
    with pytest.raises(RestoreRefusedError, match="purged the state of 'a'"):
        house.point(1)


@pytest.mark.parametrize(("batch", "dropped"), [(3, {}), (4, {"a": {"history": 4}})], ids=["behind it", "in it"])
def test_r4_a_source_stays_left_out_if_the_checkpoint_has_the_batch_of_its_end(
    house: House, batch: int, dropped: dict[str, dict[str, int]]
) -> None:
    house.journal.write(ev.SourceDropped("a", "history", 4, 0.5))
    state = house.complete(1, batch=batch)
    event = restored_event(RestorePoint(1, state.checkpoints[1]), state, 2.0)
    assert event.dropped == dropped


def back(house: House, uid: str) -> None:
    """Let the driver of epoch 2 restore one subtask: its log and its folder."""
    house.log(uid, 2, 3)
    house.attempt(uid, 2)


def half_back(house: House, uid: str) -> None:
    """Let the driver of epoch 2 die before it has completed the subtask's folder."""
    house.log(uid, 2, 3)


@pytest.mark.parametrize("other", [None, half_back], ids=["not opened", "without a folder"])
def test_r4_a_restore_that_took_some_logs_back_is_done_once_more(
    house: House, other: Callable[[House, str], None] | None
) -> None:
    house.complete(1)
    house.journal.claim("t2", Worker(), 1.0)
    house.journal.write(ev.Restored(1, {}, 2.0))
    back(house, "a")
    if other is not None:
        other(house, "b")
    point = house.interrupted()
    assert point is not None
    assert point.checkpoint == 1
    if other is None:
        back(house, "b")
    else:
        house.attempt("b", 2)
    assert house.interrupted() is None


@pytest.mark.parametrize("splits", [True, False])
def test_r21_a_log_of_before_the_job_began_anew_that_a_rescale_brings_back_is_no_interrupted_restore(
    house: House, splits: bool
) -> None:
    """The driver died after the commit and before the new subtask had opened its log.

    "b" is a subtask of a source with splits. For any other vertex the state means an interrupted restore.
    """
    house.journal.claim("t2", Worker(), 1.0)
    house.journal.write(ev.Restored(0, {}, 2.0, anew=True))
    vertices = (GRAPH.vertex("a"), replace(GRAPH.vertex("b"), splits=splits))
    house.journal.write(ev.PlanRecorded(JobGraph(vertices, ()), {}, 2.0, STREAMING))
    back(house, "a")
    assert (house.interrupted() is None) is splits


def test_r4_a_run_begins_anew_or_where_it_was_asked_to_or_goes_on_with_what_was_interrupted_or_goes_on(
    house: House,
) -> None:
    state = house.complete(1)
    asked = RestorePoint(1, state.checkpoints[1])
    assert house.start() == RecoveryPoint(None)
    assert house.start(asked=asked) == RecoveryPoint(asked)
    house.journal.claim("t2", Worker(), 1.0)
    house.journal.write(ev.Restored(1, {}, 2.0))
    half_back(house, "a")
    assert house.start() == RecoveryPoint(asked, is_journaled=True)
    assert house.start(asked=asked) == RecoveryPoint(asked), "it is another one, and in the journal by itself"
    assert house.start(is_anew=True, asked=asked) == RecoveryPoint(RestorePoint(1, None))
    house.complete(2)
    assert house.start() == RecoveryPoint(None), "every subtask had been taken back"


# ---- earlier decisions


def test_r9_r12_the_coordinator_goes_on_from_what_is_in_the_journal(house: House) -> None:
    house.complete(1)
    house.complete(2, released=False)
    house.complete(3, released=False)
    house.journal.write(ev.RequestAnswered("r", "drain", RequestOutcome.parse("accepted"), 2.0))
    house.journal.write(ev.SourceDropped("a", "history", 4, 0.5))
    house.journal.write(ev.CheckpointTriggered(7, 3.0, "checkpoint"))
    found = restored(house.journal.state)
    assert (found.last_triggered, found.last_completed, found.last_released) == (7, 3, 1)
    assert found.unreleased == (2, 3)
    assert found.draining
    assert found.dropped == {"a": ("history",)}
    assert {uid: snapshot.batch_id for uid, snapshot in found.snapshots.items()} == {"a/0": 4, "b/0": 4}


def test_r11_the_end_of_a_source_is_frozen_once_for_all_attempts(house: House) -> None:
    """The current files of the folder do not matter: the driver does not even list them."""
    freeze(house.storage, "job/frozen/history.json", "history", ["file:///in/a.parquet"])
    house.journal.write(ev.SourceFrozen("history", "frozen/history.json", 1, 0.0))
    house.journal.write(ev.SourceFrozen("endless", None, 0, 0.0))
    reads = {"history": SourceReads(paths=["/in"]), "endless": SourceReads("rate")}
    frozen = freeze_sources(
        NO_SPARK,
        house.storage,
        "job",
        OwnedJournal(house.journal),
        reads,
        {},
        streaming=True,
        allow_empty=(),
        waits=(),
        warn=print,
    )
    assert frozen == {"history": FrozenFiles("history", ("file:///in/a.parquet",))}


# ---- a log that lost its end


def open_all(house: House) -> None:
    journal = Journal(house.storage, "job")
    epoch = journal.claim("t2", Worker(), 9.0)
    open_logs(OwnedJournal(journal), house.logs(), epoch, "streaming", None)


def test_r11_the_log_of_a_finished_subtask_has_its_end(house: House) -> None:
    """The subtask would never be deployed again, and its consumers would wait for its end forever."""
    house.log("a").end_of_data("finish")
    house.log("a").end_of_partition()
    house.journal.write(ev.SubtaskFinished(SubtaskId("a/0"), "0001-x", 1.0))
    open_all(house)
    house.storage.delete(f"{subtask_log_path('job', 'a', 0)}/{house.log('a').position - 1:08d}.json")
    with pytest.raises(SubtaskLogLostError, match=r"a/0.* has no end"):
        open_all(house)
    assert {log.state.opened.epoch for log in house.logs().values() if log.state.opened} == {1, 2}, "none was opened"


def test_r15_what_an_overtaken_driver_ends_while_its_successor_opens_the_logs_stays_ended(house: House) -> None:
    """The driver appends nothing after the end of a partition, because the consumers have left by then."""
    before = house.log("a")
    before.end_of_data("finish")
    loaded = house.logs()
    journal = Journal(house.storage, "job")
    epoch = journal.claim("t2", Worker(), 9.0)
    before.end_of_partition()
    attempts = open_logs(OwnedJournal(journal), loaded, epoch, "streaming", None)
    assert set(attempts) == {SubtaskId("b/0")}
    assert journal.state.finished == {SubtaskId("a/0")}
    assert isinstance(house.log("a").records(0)[-1][1], EndOfPartition)
    open_all(house)  # the next driver finds it in the same state
    assert isinstance(house.log("a").records(0)[-1][1], EndOfPartition)
