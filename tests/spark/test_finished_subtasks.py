"""Input and state of a finished subtask are deleted while the job lives (R7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.journal.events import CheckpointCompleted, CheckpointReleased
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sparkfiles.feed_entry import encode
from airflow_provider_ckpt.storage.layout import partition_path, subtask_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.retained_job import GRAPH, A, B, RetainedJob

FINISHED_A, FINISHED_BOTH = frozenset({A}), frozenset({A, B})
KEPT = ("spark/0001-1/state/0/1.zip", "spark/0001-1.json", "prepared/0001-1.json", "scratch/0001-1-5-n/0.parquet")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(f"memory://{tmp_path}")


class EndingJob(RetainedJob):
    """A job whose subtasks finish after the barrier of checkpoint 4, with one batch more."""

    def end(self, *, closed: frozenset[SubtaskId] = FINISHED_BOTH) -> EndingJob:
        self.live(4)
        path = "a__b/data/0001-1-5-n"
        self.storage.create(f"{partition_path('job', 'a', 0)}/{path}/part-0", b"rows")
        self.logs[A].append_batch(Batch(5, {}, files=(PartitionFile(f"{path}/part-0", 4),)))
        self.logs[B].append_batch(Batch(5, {}, inputs={"a__b": 10}))
        for subtask, log in self.logs.items():
            log.end_of_data("finish")
            if subtask in closed:
                log.end_of_partition()
            for name in KEPT:
                self.storage.create(f"{self.home(subtask)}/{name}", b"kept")
        self.storage.create(f"{self.home(A)}/partition/a__b/feeds/0001/_spark_metadata/0", encode([], "p"))
        return self

    def finished(self, number: int, finished: frozenset[SubtaskId] = FINISHED_BOTH) -> None:
        """Complete a checkpoint in which the subtasks ``finished`` are finished without a barrier."""
        before = self.journal.state.checkpoints[4].subtasks
        subtasks = {
            name: replace(snapshot, finished=True, finished_on_restore=True) if name in finished else snapshot
            for name, snapshot in before.items()
        }
        self.journal.write(CheckpointCompleted(number, 0.0, 1.0, "checkpoint", subtasks, {}))
        self.journal.write(CheckpointReleased(number, 1.0, {}))

    def clean(self) -> None:
        master = self.next_master()
        master.completed(self.journal.state.last_completed)
        master.close()

    def home(self, subtask: SubtaskId) -> str:
        return subtask_path("job", subtask.vertex, subtask.number)

    def kept(self, subtask: SubtaskId) -> list[str]:
        """Return what is left of the subtask apart from its log."""
        return [path for path, _ in self.storage.files(self.home(subtask)) if not path.startswith("log/")]


def test_r7_data_of_a_subtask_goes_once_all_checkpoints_cover_its_end(storage: Storage) -> None:
    job = EndingJob(storage).end()
    job.finished(5)
    job.clean()
    assert job.data() == [4, 5]  # a restore of checkpoint 4 would start both
    assert set(job.kept(B)) == set(KEPT)
    job.finished(6)
    job.clean()
    assert (job.data(), job.kept(A), job.kept(B)) == ([], [], [])


def test_r7_data_read_by_a_finished_consumer_is_deleted(storage: Storage) -> None:
    """The snapshot of the consumer has the position of its last barrier, and no later barrier comes."""
    job = EndingJob(storage).end(closed=frozenset({B}))
    for number in (5, 6):
        job.finished(number, frozenset({B}))
    job.clean()
    assert (job.data(), job.kept(B)) == ([], [])
    assert set(KEPT) < set(job.kept(A))


def test_r7_data_unread_by_a_running_consumer_stays(storage: Storage) -> None:
    job = EndingJob(storage).end()
    for number in (5, 6):
        job.finished(number, FINISHED_A)
    job.clean()
    assert job.data() == [4, 5]
    assert [path for path in job.kept(A) if not path.startswith("partition/")] == []
    assert set(job.kept(B)) == set(KEPT)


def test_r16_a_finished_subtask_with_a_persisted_result_keeps_its_data(storage: Storage) -> None:
    graph = JobGraph((replace(GRAPH.vertices[0], persist=True), GRAPH.vertices[1]), GRAPH.edges)
    job = EndingJob(storage, graph=graph).end()
    for number in (5, 6):
        job.finished(number)
    job.clean()
    assert job.data() == [1, 2, 3, 4, 5]
    assert not [path for path in job.kept(A) if not path.startswith("partition/")]


def test_r7_a_fenced_driver_deletes_nothing_of_a_finished_subtask(storage: Storage) -> None:
    """The driver lists the folder of a finished subtask, and its successor claims the job."""

    class Overtaken(WrappedStorage):
        def files(self, path: str) -> list[tuple[str, int]]:
            listed = super().files(path)
            Journal(storage, "job").claim("t2", Worker(), 0.0)
            return listed

    job = EndingJob(Overtaken(storage)).end()
    for number in (5, 6):
        job.finished(number)
    job.clean()
    assert set(KEPT) < set(EndingJob.kept(job, A))


def test_a_driver_lists_a_finished_subtask_once(storage: Storage) -> None:
    class Counted(WrappedStorage):
        listed = 0

        def files(self, path: str) -> list[tuple[str, int]]:
            self.listed += 1
            return super().files(path)

    counted = Counted(storage)
    job = EndingJob(counted).end()
    job.finished(5)
    master = job.next_master()
    for number in range(6, 12):
        job.finished(number)
        master.completed(number)
        master._thread.submit(int).result()
    master.close()
    assert counted.listed == 2


@pytest.mark.slow
def test_r7_a_live_job_deletes_data_of_its_finished_history(world: World) -> None:
    """An aggregate over the history finishes between two checkpoints. The last checkpoint is restored later."""
    expected = world.put_ids("history", 4, 5) | world.put_ids("live", 2, 4, 1000)
    finished = {SubtaskId("history/0"), SubtaskId("counted/0")}

    def covered() -> bool:
        state = world.state()
        last = [state.checkpoints[number] for number in sorted(state.checkpoints)[-5:]]
        return len(last) == 5 and all(
            checkpoint.subtasks[name].finished_on_restore for checkpoint in last for name in finished
        )

    run = world.run(with_aggregate(world), world.ask("stop", covered), retained_checkpoints=2)
    assert (run.status, run.cause) == ("STOPPED", None)
    for subtask in finished:
        files = world.storage.files(f"job/vertices/{subtask}")
        assert [path for path, _ in files if not path.startswith(("log/", "partition/"))] == []
    assert [path for path, _ in world.storage.files("job/vertices/history/0/partition") if "/data/" in path] == []
    live = world.put_ids("live", 1, 4, 2000)
    newest = f"chk-{world.state().last_completed}"
    run = world.run(with_aggregate(world), world.drain_at(len(expected | live)), restore=newest)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected | live)


def with_aggregate(world: World) -> Job:
    """Return a job with three queries: history, an aggregate over it, and a live query that reads the aggregate."""
    job = Job("aggregated")

    @job.source(bounded=True, max_files_per_trigger=1, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history], chain=False)
    def counted(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["id"]).withColumn("k", F.col("k") + 0)

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[counted, live])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))
    return job
