"""Results of operators with persist=True.

Once their job is FINISHED, other jobs can read them: complete, each row once.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job, JobClient, ResultNotPersistedError, read_persisted
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.jobmaster.recovery.persisted_results import PersistedResult
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from tests.spark.faults import BATCH, HookedStorage, RefusedEntries
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.persisting_job import persisting, run_to_the_end
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def reading(world: World, root: Path | None = None) -> Job:
    """Return another job that reads the persisted result, from the same root or another one."""
    job = Job("reading")

    @job.source(bounded=True)
    def kept(read: DataFrameReader) -> DataFrame:
        return read_persisted(read, root or job.root, "job", "clean")

    job.sink("copy", kept, FileSink(world.path("copy")))
    return job


def result(world: World) -> PersistedResult:
    return JobClient(world.root, world.job_id).persisted_result("clean")


def partitions(world: World) -> set[str]:
    """Return the vertices that have data files."""
    files = (world.root / "job" / "vertices").glob("*/*/partition/**/part-*.parquet")
    return {path.relative_to(world.root / "job" / "vertices").parts[0] for path in files}


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_another_job_reads_a_persisted_result_of_a_finished_job(world: World, spark: SparkSession, mode: str) -> None:
    """The root is in a folder whose name looks like a partition column."""
    there = World(world.base / "day=1")
    expected = there.put_ids("history", 4, 5)
    run_to_the_end(there, persisting(there), mode=mode)
    assert partitions(there) == {"clean"}
    assert result(there).rows == 20
    other = World(world.base / "other")
    run_to_the_end(other, reading(other, there.root))
    assert other.released_ids("copy") == sorted(expected)
    assert set(other.released("copy")[0]) == {"id", "k"}
    assert {row["id"] for row in read_persisted(spark.read, there.root, "job", "clean").collect()} == expected
    run_to_the_end(there, persisting(there), mode=mode)  # again: nothing runs, and nothing is deleted
    assert result(there).rows == 20
    assert there.released_ids("out") == sorted(number for number in expected if number % 3 == 0)


def test_another_job_under_the_same_root_reads_from_the_runs_root(world: World) -> None:
    expected = world.put_ids("history", 2, 3)
    run_to_the_end(world, persisting(world))
    other = World(world.base, "other")
    job = reading(other)
    with pytest.raises(InvalidJobError, match=r"job\.root of job 'reading'"):
        _ = job.root
    run_to_the_end(other, job)
    assert other.released_ids("copy") == sorted(expected)
    assert job.root.uri == str(other.root)
    assert job.__getstate__()["_root"] is None


def test_a_drain_does_not_truncate_a_persisted_result(world: World) -> None:
    world.put_ids("history", 6, 2)
    world.put_ids("live", 1, 1, start=100)
    job = persisting(world, sink=False)

    @job.source
    def feed(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    job.sink("out", feed, FileSink(world.path("out")))
    batches: list[str] = []

    def drain_in_the_second(verb: str, path: str) -> None:
        if verb == "replace" and "/clean/0/prepared/" in path:
            batches.append(path)
            if len(batches) == 2:
                wait_until(lambda: world.state().status == "RUNNING", "a job that may be drained")
                world.request("drain")
                wait_until(lambda: world.state().draining, "the drain")

    run = world.run(job, storage=HookedStorage(world.storage, drain_in_the_second))
    assert len(batches) > 2
    assert (run.status, run.cause) == ("FINISHED", None)
    assert result(world).rows == 12


def test_a_job_with_a_persisted_result_needs_no_sink(world: World) -> None:
    world.put_ids("history", 2, 3)
    run_to_the_end(world, persisting(world, sink=False))
    assert (result(world).rows, partitions(world)) == (6, {"clean"})


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_a_result_without_rows_can_be_read(world: World, mode: str) -> None:
    world.put_ids("history", 2, 3)
    run_to_the_end(world, persisting(world, where="id < 0"), mode=mode)
    assert (result(world).rows, result(world).files) == (0, ())
    other = World(world.base / "other")
    run_to_the_end(other, reading(other, world.root))
    assert other.released_ids("copy") == []


def test_a_persisted_result_is_read_by_splits_next_to_a_live_source(world: World) -> None:
    expected = world.put_ids("history", 4, 5)
    run_to_the_end(world, persisting(world), mode="streaming")
    other = World(world.base / "other")
    live = other.put_ids("live", 1, 3, start=100)
    job = Job("splits")

    @job.source(bounded=True, splits=lambda: result(world).files)
    def kept(read: DataFrameReader, split: str) -> DataFrame:
        return read.parquet(split)

    @job.source
    def feed(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(other.path("live"))

    @job.transform(inputs=[kept, feed])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(other.path("out")))
    run = other.run(job, other.drain_at(len(expected | live)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert other.released_ids() == sorted(expected | live)


def test_a_streaming_reader_of_a_persisted_result_is_refused(world: World) -> None:
    world.put_ids("history", 1, 1)
    run_to_the_end(world, persisting(world))
    other = World(world.base / "other")
    with pytest.raises(UnfitSourceError, match="by splits"):
        other.run(reading(other, world.root), mode="streaming")
    assert not other.root.exists()


def test_a_persisted_result_of_an_unfinished_job_is_refused(world: World) -> None:
    world.put_ids("history", 3, 2)
    run = world.run(persisting(world), storage=RefusedEntries(world.storage, "report", BATCH), mode="batch")
    assert run.status == "RESTARTING"
    assert "clean" in partitions(world)
    other = World(world.base / "other")
    with pytest.raises(ResultNotPersistedError, match="job 'job' is RESTARTING"):
        other.run(reading(other, world.root))
    run_to_the_end(world, persisting(world), mode="batch")
    run_to_the_end(other, reading(other, world.root))
    assert other.released_ids("copy") == [*range(6)]


def test_lost_files_of_an_unfinished_persisted_result_are_produced_again(world: World) -> None:
    """The driver dies at the completion of the checkpoint that would cover the result."""
    world.put_ids("history", 3, 2)

    with suppress(TransientError):
        world.run(persisting(world), storage=_NoCheckpoint(world), mode="batch")
    for path in (world.root / "job" / "vertices" / "clean").glob("*/partition/**/part-*.parquet"):
        path.unlink()
    run = world.run(persisting(world), mode="batch")
    assert (run.status, run.cause) == ("FINISHED", None)
    (line,) = run.of("reconciled")
    assert "run again: clean/0 (files of 1 batch are gone that must be kept)" in line["message"]
    assert result(world).rows == 6
    assert world.released_ids() == [0, 3]


class _NoCheckpoint(HookedStorage):
    """A storage that fails when the first checkpoint completes."""

    def __init__(self, world: World) -> None:
        super().__init__(world.storage, lambda verb, path: None)

    def create(self, path: str, data: bytes) -> None:
        if b'"type": "CheckpointCompleted"' in data:
            raise StorageTransientError(verb="create", uri=path, reason="gone")
        super().create(path, data)


def test_persist_cannot_change_while_a_job_is_unfinished(world: World) -> None:
    world.put_ids("history", 3, 2)
    world.run(persisting(world, keep=False), storage=RefusedEntries(world.storage, "clean", BATCH), mode="streaming")
    with pytest.raises(IllegalGraphChangeError, match="the job is not the one its journal describes"):
        world.run(persisting(world), mode="streaming")
    run_to_the_end(world, persisting(world, keep=False), mode="streaming")
