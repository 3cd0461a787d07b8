"""Deletion after a checkpoint: the data that goes and the data that stays (R3, R6, R7). No Spark runs here."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.recovery.restore import spark_folders
from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.jobmaster.retention.retention import (
    PURGE_AT,
    TRUNCATE_AT,
    WORTH_A_SNAPSHOT,
    Retention,
    worth_a_snapshot,
)
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased, SubtaskFinished
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import journal_path, metadata_path, partition_path, subtask_log_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.retained_job import GRAPH, A, B, RetainedJob

LAST = 24


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"memory://{tmp_path}")


@pytest.fixture
def truncate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncate a log whenever there is anything to truncate."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 1)


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_only_data_needed_by_retained_checkpoints_stays(storage: Storage) -> None:
    """The input entry at the checkpoint's position stays too, because it may have been read in part."""
    job = RetainedJob(storage).live(LAST)
    assert job.data() == [LAST - 1, LAST]
    assert job.positions("a")[0] == job.positions("b")[0] == 2 * (LAST - 1)
    assert [record.batch_id for _, record in job.logs[A].records() if isinstance(record, Batch)] == [LAST - 1, LAST]


@pytest.mark.parametrize("gap", [0, 5])
def test_r7_a_closed_gate_holds_batches_and_no_later_barriers(storage: Storage, gap: int) -> None:
    """The sink has released the first of four batches, and its gate is then closed for weeks.

    The head passes the other three again and again. They stay in the log in memory, and for a new reader of the log.
    """
    job = RetainedJob(storage).live(4, released=1)
    job.idle(range(5, 5 + gap))
    job.logs[B].append_batch(Batch(5, {}, handles={"out": {"id": "h5", "rows": 1}}))
    job.idle(range(5 + gap, 200))
    assert len(storage.list(subtask_log_path("job", "b", 0))) < 6 * TRUNCATE_AT
    assert unreleased(job.logs[B]) == unreleased(loaded(storage, B)) == ["h2", "h3", "h4", "h5"]
    job.idle(range(200, 280), released=220)
    assert unreleased(job.logs[B]) == unreleased(loaded(storage, B)) == ["h5"]  # the log is folded from it


def test_r7_few_unreleased_entries_are_kept_below_the_head(storage: Storage) -> None:
    """The log has as many batches as barriers.

    Entries after the head are read as a pack, and entries below it one by one.
    """
    job = RetainedJob(storage).live(4 * TRUNCATE_AT, released=1)
    assert job.head("b") < 4


def loaded(storage: Storage, subtask: SubtaskId) -> SubtaskLog:
    log = SubtaskLog(storage, subtask_log_path("job", subtask.vertex, subtask.number))
    log.load()
    return log


def unreleased(log: SubtaskLog) -> list[object]:
    return [dict(record.handles["out"])["id"] for _, record in log.records() if isinstance(record, Batch)]


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_a_fenced_driver_truncates_nothing(storage: Storage) -> None:
    """The successor may restore data that this driver considers unneeded."""
    job = RetainedJob(storage).live(LAST - 1)
    job.complete(LAST)
    late, before = job.next_master(), job.left()
    Journal(storage, "job").claim("t2", Worker(), 0.0)
    late.completed(LAST)
    late.close()
    assert job.left() == before


def test_r7_a_fenced_driver_deletes_no_checkpoint(storage: Storage) -> None:
    job = RetainedJob(storage).live(2)
    before = sorted(storage.list("job/checkpoints"))
    job.complete(3)
    late = job.next_master(retained=1)
    Journal(storage, "job").claim("t2", Worker(), 0.0)
    late.completed(3)
    late.close()
    assert sorted(storage.list("job/checkpoints")) == before


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_a_driver_fenced_after_its_check_deletes_nothing(storage: Storage) -> None:
    """The driver writes the copy of its checkpoint and pauses.

    Its successor restores data that the driver would delete.
    """

    class Overtaken(WrappedStorage):
        at = metadata_path("job", LAST)

        def replace(self, path: str, data: bytes) -> None:
            super().replace(path, data)
            if path == self.at:
                Journal(storage, "job").claim("t2", Worker(), 0.0)

    job = RetainedJob(Overtaken(storage)).live(LAST)
    assert job.data() == [LAST - 2, LAST - 1, LAST]
    assert job.positions("a")[0] == job.positions("b")[0] == 2 * (LAST - 2)


@pytest.mark.usefixtures("truncate_at_once")
def test_truncated_entries_are_removed_from_memory(storage: Storage) -> None:
    job = RetainedJob(storage).live(LAST)
    for uid in ("a", "b"):
        log, again = job.logs[SubtaskId.of(uid, 0)], SubtaskLog(storage, subtask_log_path("job", uid, 0))
        again.load()
        assert log.records() == again.records()
        assert log.state.barriers == again.state.barriers


def test_r7_a_few_entries_are_not_worth_a_truncation(storage: Storage) -> None:
    """A checkpoint adds two entries to the log of "b"."""
    job = RetainedJob(storage).live(TRUNCATE_AT // 2)
    assert job.positions("b")[0] == 1
    job = RetainedJob(storage.child("another")).live(TRUNCATE_AT // 2 + 1)
    assert job.positions("b")[0] == TRUNCATE_AT


def test_r7_data_read_by_all_consumers_goes_with_the_next_checkpoint(storage: Storage) -> None:
    """The data may have gigabytes, and a job may take one checkpoint an hour."""
    assert RetainedJob(storage).live(4).data() == [3, 4]


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_an_idle_subtask_keeps_its_last_batch_and_no_old_barriers(storage: Storage) -> None:
    """The last batch shows the subtask's published position, also to the next checkpoint."""
    job = RetainedJob(storage).live(1)
    for number in range(2, 100):
        subtasks = {uid: log.barrier(1, number) for uid, log in job.logs.items()}
        job.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        master = job.next_master()
        master.completed(number)
        master.close()
    again = SubtaskLog(storage, subtask_log_path("job", "b", 0))
    assert again.load().last_batch is not None
    assert again.state.last_batch == job.logs[B].state.last_batch
    assert len(storage.list(again.path)) < 10
    assert len(job.logs[B].state.barriers) < 5


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_entries_with_unreleased_handles_stay(storage: Storage) -> None:
    job = RetainedJob(storage).live(LAST, released=10)
    assert job.positions("b")[0] == 2 * 10 + 1


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_all_entries_of_a_final_only_sink_stay(storage: Storage) -> None:
    job = RetainedJob(storage, final_only={"out"}).live(LAST)
    assert job.positions("b")[0] == 1


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_files_are_deleted_before_their_entries(storage: Storage) -> None:
    """A crash in between must not leave files that no entry names, because they would never be found."""
    wrapped = WrappedStorage(storage)
    RetainedJob(wrapped).live(LAST)
    gone, heads = 0, 0
    for verb in wrapped.verbs.log:
        if verb.startswith("delete_tree ") and "/partition/" in verb:
            gone = int(verb.rpartition("/")[2].split("-")[2])
        elif verb.startswith("create ") and "/a/0/log/head-" in verb:
            heads += 1
            assert int(verb[-13:-5]) <= 2 * gone + 2  # the previous batch stays
    assert (gone, heads) == (LAST - 2, LAST - 1)


def test_r6_the_portable_copies_of_the_retained_checkpoints_stay(storage: Storage) -> None:
    RetainedJob(storage, retained=3).live(10)
    assert storage.list("job/checkpoints") == ["chk-10", "chk-8", "chk-9"]
    for name in storage.list("job/checkpoints"):
        assert storage.exists(f"job/checkpoints/{name}/_metadata")


def test_r6_a_failed_copy_of_a_checkpoint_deletes_no_older_copy(storage: Storage) -> None:
    """The storage refuses copies for some time. The newest copies stay, and the missing copies are written later."""

    class Refusing(WrappedStorage):
        refuses = False

        def replace(self, path: str, data: bytes) -> None:
            if self.refuses and path.endswith("/_metadata"):
                super().replace(path.replace("_metadata", "other"), data)  # as a local disk leaves an empty folder
                raise StorageTransientError(verb="replace", uri=path, reason="disk full")
            super().replace(path, data)

    refusing = Refusing(storage)
    job = RetainedJob(refusing, retained=3)

    def copies() -> list[str]:
        master.completed(job.journal.state.last_completed)
        master._thread.submit(int).result()
        return sorted(path.partition("/")[0] for path, _ in storage.files("job/checkpoints") if "metadata" in path)

    master = job.next_master(retained=3)
    for number in range(1, 5):
        job.complete(number)
        kept = copies()
    assert kept == ["chk-2", "chk-3", "chk-4"]
    refusing.refuses = True
    for number in range(5, 9):
        job.complete(number)
        assert copies() == kept
    refusing.refuses = False
    job.complete(9)
    assert copies() == ["chk-7", "chk-8", "chk-9"]
    master.close()


class JobWithSparkFolder(RetainedJob):
    """A job in which the query of "a" has the Spark folder of an attempt."""

    def complete(self, number: int) -> None:
        folders, _ = spark_folders(self.storage, "job", A)
        folder = folders.create(AttemptId(1, 0, "1"), None)
        for log in ("offsets", "commits"):
            self.storage.create(f"{folder.path}/{log}/{number}", b"v1")
        super().complete(number)

    def batches(self) -> list[int]:
        folder = f"{spark_folders(self.storage, 'job', A)[1]}/{AttemptId(1, 0, '1')}"
        offsets, commits = (sorted(map(int, self.storage.list(f"{folder}/{log}"))) for log in ("offsets", "commits"))
        assert offsets == commits
        return offsets


def test_r6_sparks_folder_is_purged_below_the_oldest_retained_checkpoint(storage: Storage) -> None:
    job, older = JobWithSparkFolder(storage, retained=3), JobWithSparkFolder(storage.child("another"), retained=3)
    job.live(PURGE_AT + 1)
    older.live(PURGE_AT + 2)
    assert (job.batches()[0], older.batches()[0]) == (1, PURGE_AT - 2)


def test_r7_a_checkpoint_of_its_earlier_life_purges_no_returned_operator(storage: Storage) -> None:
    """Its batches begin at 0 again, and the oldest retained checkpoint names a batch of its earlier life."""
    job = JobWithSparkFolder(storage, retained=3)
    job.live(3 * PURGE_AT)
    folder = f"{spark_folders(storage, 'job', A)[1]}/{AttemptId(1, 0, '1')}"
    storage.delete_tree(folder)
    for number in range(6):
        for log in ("offsets", "commits"):
            storage.create(f"{folder}/{log}/{number}", b"v1")
    master = job.next_master(retained=3)
    last = job.journal.state.checkpoints[3 * PURGE_AT]
    now = {name: replace(snapshot, batch_id=5) for name, snapshot in last.subtasks.items()}
    number = 3 * PURGE_AT + 1
    job.journal.write(replace(last, checkpoint=number, subtasks=now))
    master.completed(number)
    master.close()
    assert job.batches() == [*range(6)]


def test_r7_a_driver_fenced_before_a_purge_purges_nothing(storage: Storage) -> None:
    class Overtaken(WrappedStorage):
        def exists(self, path: str) -> bool:
            there = super().exists(path)
            if path.endswith(f"{AttemptId(1, 0, '1')}.json"):
                Journal(storage, "job").claim("t2", Worker(), 0.0)
            return there

    job = JobWithSparkFolder(Overtaken(storage), retained=3)
    job.live(PURGE_AT + 2)
    assert job.batches()[0] == 1


@pytest.mark.slow
def test_r3_a_compacted_journal_replays_to_the_same_state(storage: Storage) -> None:
    job = RetainedJob(storage).live(4 * WORTH_A_SNAPSHOT)
    state = Journal(storage, "job").replay()
    assert state == job.journal.state
    assert state.last_released == 4 * WORTH_A_SNAPSHOT
    assert len(storage.list(journal_path("job"))) < worth_a_snapshot(GRAPH) + 10 == 90


def test_r3_the_journal_of_a_job_with_short_runs_is_compacted(storage: Storage) -> None:
    """Entries of all drivers count."""
    job = RetainedJob(storage)
    for number in range(1, WORTH_A_SNAPSHOT):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        master = job.next_master()
        master.completed(number)
        master.close()
    assert len(storage.list(journal_path("job"))) < worth_a_snapshot(GRAPH) + 10


def test_the_journal_of_a_job_without_checkpoints_is_compacted(storage: Storage) -> None:
    """BATCH mode: the journal is compacted rarely, and not for a few entries."""
    job = RetainedJob(storage)
    for number in range(WORTH_A_SNAPSHOT):
        job.journal.write(SubtaskFinished(A, str(number), 0.0))
        job.journal.flush()
    job.retention.snapshot_if_due(1e9)  # a job with checkpoints: compacted after a number of them
    job.retention.close()
    assert len(storage.list(journal_path("job"))) > WORTH_A_SNAPSHOT
    job.journal.compact(0.0)
    job.retention = Retention(
        storage,
        "job",
        lambda: GRAPH,
        job.journal,
        job.logs,
        retained=1,
        final_only=frozenset(),
        snapshot_min_pause=60.0,
    )

    def left(now: float, events: int) -> int:
        for number in range(events):
            job.journal.write(SubtaskFinished(A, str(number), 0.0))
            job.journal.flush()
        job.retention.snapshot_if_due(now)
        job.retention._thread.submit(lambda: None).result()  # waits for its compaction
        return len(storage.list(journal_path("job")))

    assert left(0.0, 10) > 10
    assert left(100.0, WORTH_A_SNAPSHOT) < 10
    assert left(159.0, WORTH_A_SNAPSHOT) > WORTH_A_SNAPSHOT
    assert left(160.0, 0) < 10
    job.retention.close()
    assert Journal(storage, "job").replay() == job.journal.state


def test_r21_unread_data_of_an_added_subtask_stays(storage: Storage) -> None:
    """Retention reads the current graph each time. In the first graph the new subtask has no reader."""
    narrow, more = (replace(GRAPH.vertices[0], splits=True, parallelism=width) for width in (1, 2))
    b, new = GRAPH.vertices[1], SubtaskId("a/1")
    now = [JobGraph((narrow, b), GRAPH.edges)]
    job = RetainedJob(storage)
    log = job.logs[new] = SubtaskLog(storage, subtask_log_path("job", "a", 1))
    log.load()
    log.open(AttemptId(1, 1, "1"))
    for number in (0, 1):  # the last batch always stays
        log.append_batch(Batch(number, {}, splits=(f"s{number}",)))
    job.retention.close()
    job.retention = Retention(storage, "job", lambda: now[0], job.journal, job.logs, retained=1, final_only=frozenset())
    now[0] = JobGraph((more, b), GRAPH.edges)
    job.live(LAST)
    kept = SubtaskLog(storage, log.path)
    kept.load()
    assert 1 in [number for number, _ in kept.records()]


def test_r7_a_job_with_short_runs_deletes_as_much_data(storage: Storage) -> None:
    """The bug counted the checkpoints of each run alone, so a job that stopped every hour deleted nothing."""
    job = RetainedJob(storage)
    for number in range(1, LAST + 1):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        master = job.next_master()
        master.completed(number)
        master.close()
    job.retention.close()
    assert job.data() == [LAST - 1, LAST]
    assert job.positions("a")[0] == 2 * (LAST - 1)


def test_a_slow_storage_does_not_queue_up_deletions(
    storage: Storage,
) -> None:
    """A queue would grow as long as the job runs. The end of the run would wait for all of it."""
    resumes = threading.Event()

    class Slow(WrappedStorage):
        looks = 0

        def list(self, path: str) -> Any:
            if path.endswith("/checkpoints"):
                self.looks += 1
                assert resumes.wait(30)
            return super().list(path)

    slow = Slow(storage)
    job = RetainedJob(slow)
    for number in range(1, 6 * LAST + 1):
        job.complete(number)
        job.journal.write(CheckpointReleased(number, 1.0, {}))
        job.retention.completed(number)
    resumes.set()
    job.retention.close()
    assert slow.looks <= 2
    assert job.data() == [6 * LAST - 1, 6 * LAST]
    assert storage.list("job/checkpoints") == [f"chk-{6 * LAST - 1}", f"chk-{6 * LAST}"]


@pytest.mark.usefixtures("truncate_at_once")
def test_r7_an_aborted_checkpoint_does_not_delay_deletions(storage: Storage) -> None:
    """The logs would have been truncated at exactly its number."""
    job = RetainedJob(storage)
    for number in (*range(1, LAST), LAST + 1):
        job.complete(number)
        job.retention.completed(number)
    job.retention.close()
    assert job.data() == [LAST - 1, LAST + 1]


def test_data_is_deleted_once_while_its_entries_stay(storage: Storage) -> None:
    """The entries of a producer stay from the first one on, because its sink releases only at the end."""
    a = replace(GRAPH.vertices[0], sinks=("late",))
    wrapped = WrappedStorage(storage)
    graph = JobGraph((a, GRAPH.vertices[1]), GRAPH.edges)
    job = RetainedJob(wrapped, final_only={"late"}, graph=graph).live(3 * LAST)
    assert job.positions("a")[0] == 1
    assert job.data() == [3 * LAST - 1, 3 * LAST]
    deleted = [verb for verb in wrapped.verbs.log if verb.startswith("delete_tree ") and "/partition/" in verb]
    assert len(deleted) == len(set(deleted)) == 3 * LAST - 2


@pytest.mark.usefixtures("truncate_at_once")
def test_data_that_is_gone_already_causes_no_error(storage: Storage) -> None:
    """A deletion that was interrupted is repeated, and a user may have cleaned up by hand."""
    job = RetainedJob(storage).live(LAST - 1)
    storage.delete_tree(partition_path("job", "a", 0))
    job.complete(LAST)
    master = job.next_master()
    master.completed(LAST)
    master.close()
    assert job.data() == [LAST]
    assert job.positions("a")[0] == 2 * (LAST - 1)


def test_a_failed_deletion_is_completed_by_a_later_one(storage: Storage) -> None:
    class Fails(WrappedStorage):
        left = 10

        def delete_tree(self, path: str) -> None:
            if "/partition/" in path:
                self.left -= 1
                if not self.left:
                    raise StorageTransientError(verb="delete_tree", uri=path, reason="gone")
            super().delete_tree(path)

    failing = Fails(storage)
    job = RetainedJob(failing).live(2 * LAST)
    assert failing.left < 0
    assert job.data() == [2 * LAST - 1, 2 * LAST]


def test_r8_a_fenced_jobmaster_deletes_no_data_of_the_next_attempt(storage: Storage) -> None:
    """The fenced JobMaster was paused after its fence check.

    Its successor restores an earlier position and publishes the same batch ids.
    """
    successor = SubtaskLog(storage, subtask_log_path("job", "a", 0))
    mine = "a__b/data/0002-2-5-n"

    class Paused(WrappedStorage):
        is_overtaken = False

        def delete_tree(self, path: str) -> None:
            if path.endswith(f"0001-1-{LAST - 2}-n") and not self.is_overtaken:
                self.is_overtaken = True
                Journal(storage, "job").claim("t2", Worker(), 0.0)
                successor.load()
                successor.open(AttemptId(2, 0, "2"), continues_at=1)
                storage.create(f"{partition_path('job', 'a', 0)}/{mine}/part-0", b"rows")
                successor.append_batch(Batch(5, {}, files=(PartitionFile(f"{mine}/part-0", 4),)))
            super().delete_tree(path)

    RetainedJob(Paused(storage)).live(LAST)
    assert storage.list(f"{partition_path('job', 'a', 0)}/{mine}") == ["part-0"]
    successor.check_fenced()
    reader = SubtaskLog(storage, successor.path)
    reader.load()
    assert [record for _, record in reader.records() if isinstance(record, Batch)] == [
        Batch(5, {}, files=(PartitionFile(f"{mine}/part-0", 4),))
    ]


@pytest.mark.usefixtures("truncate_at_once")
def test_r16_data_and_entries_of_a_persisted_result_stay(storage: Storage) -> None:
    """The reader of the result has read all rows."""
    job = RetainedJob(
        storage, graph=JobGraph((replace(GRAPH.vertices[0], persist=True), GRAPH.vertices[1]), GRAPH.edges)
    )
    job.live(LAST)
    assert job.data() == [*range(1, LAST + 1)]
    assert job.positions("a")[0] == 1
    assert job.positions("b")[0] == 2 * (LAST - 1)
