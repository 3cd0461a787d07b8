"""Small splits that are read together: every row is released once, and a failure names its split."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.spark.task.bounded import split_stage
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task import local_gateway, split_reading
from tests.spark.faults import BATCH, Fault, FaultySink, FaultyStorage, HookedStorage, RefusedEntries
from tests.spark.harness import World
from tests.spark.split_jobs import EACH, SplitReader, completed_splits, fail_at, ids_of, split_records, splits
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def all_jobs_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every job count as short, so that 1, 2, 4, 8, … splits are read together."""
    monkeypatch.setattr(split_reading, "SMALL", 600.0)
    monkeypatch.setattr(split_reading, "SHORT", 600.0)
    monkeypatch.setattr(split_reading, "_GAIN_FACTOR", 600.0)
    monkeypatch.setattr(split_stage, "SHORT", 600.0)


def job_of(
    world: World,
    given: Any,
    read: Callable[[Any, Any], DataFrame],
    parallelism: int = 1,
    most: int | None = 64,
    sink: Callable[[str], Any] = FileSink,
    batched: bool = False,
) -> Job:
    """Return the job parts (by split) -> doubled. Both have a sink."""
    job = Job("splits")

    @job.source(bounded=True, splits=given, parallelism=parallelism, max_splits_per_batch=most, batched=batched)
    def parts(reader: DataFrameReader, split: Any) -> DataFrame:
        return read(reader, split)

    @job.transform(inputs=[parts])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("raw", parts, sink(world.path("raw")))
    job.sink("out", doubled, sink(world.path("out")))
    return job


def entries(world: World, subtasks: int = 1) -> list[tuple[str, ...]]:
    """Return the splits that each entry completes, in order."""
    return [
        record.splits
        for number in range(subtasks)
        for _, record in split_records(world, number)
        if isinstance(record, Batch)
    ]


def names(first: int, behind: int) -> tuple[str, ...]:
    return tuple(f"part-{number}" for number in range(first, behind))


def run_to_the_end(world: World, job: Job, given: Any, **more: Any) -> None:
    run = world.run(job, **more)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == world.released_ids("raw") == ids_of(given)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_one_entry_publishes_several_splits_and_each_row_once(world: World, mode: str) -> None:
    given, read = splits(30), SplitReader()
    run_to_the_end(world, job_of(world, given, read), given, mode=mode)
    assert Counter(read.asked) == Counter([split["id"] for split in given] + ["part-0"])
    if mode == "batch":  # in a stream the log may have forgotten some
        assert [split for entry in entries(world) for split in entry] == [split["id"] for split in given]
        assert max(map(len, entries(world))) >= 4
        cores = SparkSession.active().sparkContext.defaultParallelism
        assert all(len(record.files) <= cores for _, record in split_records(world, 0) if isinstance(record, Batch))


def test_several_subtasks_read_splits_together_by_default(world: World) -> None:
    given = splits(40)
    run_to_the_end(world, job_of(world, given, SplitReader(), parallelism=2, most=None), given)
    assert max(map(len, entries(world, 2))) > 1
    assert completed_splits(world, 2).keys() == {split["id"] for split in given}


@pytest.mark.parametrize(("parallelism", "most"), [(1, None), (2, 1)], ids=["one subtask", "bound of one"])
def test_splits_are_read_one_by_one_by_default(world: World, parallelism: int, most: int | None) -> None:
    """If one subtask reads the source, the function may overwrite the data that it returned for the previous split."""
    given = splits(10)
    run_to_the_end(world, job_of(world, given, SplitReader(), parallelism, most), given)
    assert set(map(len, entries(world, parallelism))) == {1}


def test_empty_splits_and_other_column_orders_are_read_together(world: World) -> None:
    given = [{**split, "rows": EACH if number % 3 else 0} for number, split in enumerate(splits(16))]
    plain = SplitReader()

    def read(reader: Any, split: Any) -> DataFrame:
        frame = plain(reader, split)
        return frame.select("k", "id") if int(split["first"]) % 2 else frame

    run_to_the_end(world, job_of(world, given, read), given)
    assert all(row["k"] == row["id"] % 3 for row in world.released("raw"))
    assert max(map(len, entries(world))) > 1


def test_splits_not_returned_in_time_are_read_by_a_later_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The splits that the function has returned are read, and the entry names only these."""
    monkeypatch.setattr(split_stage, "SHORT", -1.0)
    given, read = splits(12), SplitReader()
    run_to_the_end(world, job_of(world, given, read), given)
    assert set(map(len, entries(world))) == {1}
    assert read.asked == ["part-0", *names(0, 12)]


# ---- failing splits


def test_a_split_with_a_failing_function_is_named_and_good_ones_count(world: World) -> None:
    given = splits(20)
    down = SplitReader(then=lambda split: fail_at(split, "part-12"))
    run = world.run(job_of(world, given, down))
    assert run.status == "RESTARTING"
    assert "split 'part-12' of source 'parts' failed: ConnectionError: the service is down" in str(run.cause)
    assert [split for entry in entries(world) for split in entry] == list(names(0, 12))
    assert max(map(len, entries(world))) > 1
    read = SplitReader()
    run_to_the_end(world, job_of(world, given, read), given)
    assert sorted(read.asked[1:]) == sorted(names(12, 20))


def test_a_split_that_fails_in_spark_is_named(world: World) -> None:
    given, plain = splits(12), SplitReader()

    def read(reader: Any, split: Any) -> DataFrame:
        frame = plain(reader, split)
        return frame.withColumn("k", F.raise_error(F.lit("rotten")).cast("long")) if split["id"] == "part-5" else frame

    run = world.run(job_of(world, given, read))
    assert run.status == "RESTARTING"
    assert "split 'part-5' of source 'parts' failed" in str(run.cause)
    assert "rotten" in str(run.cause)
    assert completed_splits(world, 1).keys() == set(names(0, 5))


def test_a_split_with_other_columns_is_named(world: World) -> None:
    given, plain = splits(12), SplitReader()

    def read(reader: Any, split: Any) -> DataFrame:
        frame = plain(reader, split)
        return frame.withColumnRenamed("k", "other") if split["id"] == "part-9" else frame

    run = world.run(job_of(world, given, read))
    assert run.status == "FAILED"
    assert "split 'part-9' of source 'parts'" in str(run.cause)
    assert "struct<id:bigint,other:bigint> instead of struct<id:bigint,k:bigint>" in str(run.cause)


@pytest.mark.slow
def test_a_split_that_fails_only_with_others_is_read_alone(world: World) -> None:
    """Some of the next splits are read alone, too, before any are read together again."""
    given, now = splits(40), list[str]()

    def then(split: str) -> None:
        now.append(split)
        if split == "part-2" and now.count(split) == 1:
            raise ConnectionError("two at a time")

    run_to_the_end(world, job_of(world, given, SplitReader(then=then)), given)
    sizes = list(map(len, entries(world)))
    assert sizes[:17] == [1] * 17
    assert max(sizes[17:]) > 1


def sleeping(seconds: float, plain: SplitReader) -> Callable[[Any, Any], DataFrame]:
    def read(reader: Any, split: Any) -> DataFrame:
        slept = F.expr(f"reflect('java.lang.Thread', 'sleep', {int(seconds * 1000)}L)")
        return plain(reader, split).withColumn("k", F.when(slept.isNull(), F.col("k")).otherwise(F.col("k")))

    return read


@pytest.mark.slow
def test_a_slow_batch_of_splits_is_cancelled_and_read_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of patience is zero: every batch of several splits is cancelled."""
    monkeypatch.setattr(split_reading, "_ABORT_FACTOR", 0)
    given, asked = splits(12), SplitReader()
    run_to_the_end(world, job_of(world, given, sleeping(0.3, asked)), given)
    assert set(map(len, entries(world))) == {1}
    assert max(Counter(asked.asked[1:]).values()) == 2, "no splits were begun together"


@pytest.mark.slow
def test_a_stop_interrupts_splits_that_are_read_together(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_gateway, "LAST_BATCH", 0.0)
    given, quick, slow = splits(60), SplitReader(), sleeping(60, SplitReader())
    asked = list[str]()

    def read(reader: Any, split: Any) -> DataFrame:
        if split["first"] < 10 * EACH:
            return quick(reader, split)
        asked.append(split["id"])
        if len(asked) == 1:
            threading.Thread(target=stop).start()
        return slow(reader, split)

    def stop() -> None:
        tracker = SparkSession.active().sparkContext.statusTracker()
        wait_until(lambda: len(asked) > 1 and bool(tracker.getActiveJobsIds()), "a Spark job of the splits")
        world.request("stop")

    run = world.run(job_of(world, given, read), mode="streaming")
    assert run.status == "STOPPED", run
    assert len(asked) < 50
    run_to_the_end(world, job_of(world, given, SplitReader()), given, mode="streaming")


# ---- crashes, losses


def die_and_recover(world: World, at: int) -> bool:
    given, fault = splits(9), Fault(at, "after" if at % 2 else "before")
    faulty = job_of(world, given, SplitReader(), 2, sink=lambda path: FaultySink(path, fault=fault))
    try:
        ended = world.run(faulty, storage=FaultyStorage(world.storage, fault), mode="streaming").status
        assert ended in ("FINISHED", "RESTARTING")
    except TransientError as error:
        ended = type(error).__name__
    print(f"verb {at} ({fault.when}): {fault.verbs.log[at - 1 : at]} -> {ended}")
    run_to_the_end(world, job_of(world, given, SplitReader(), 2, sink=FaultySink), given, mode="streaming")
    return fault.happened


@pytest.mark.slow
@pytest.mark.parametrize("at", [18, 33, 41, 52])
def test_the_next_run_finishes_a_crashed_one(world: World, at: int) -> None:
    die_and_recover(world, at)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_a_crash_at_each_verb_loses_and_repeats_nothing(world: World) -> None:
    at = 1
    while die_and_recover(World(world.base / str(at)), at):
        at += 1


@pytest.mark.slow
def test_after_a_kill_only_unpublished_splits_are_read_again(world: World) -> None:
    given, first, second = splits(40), SplitReader(), SplitReader()
    gone = threading.Event()

    def hook(verb: str, path: str) -> None:
        if gone.is_set() or (verb == "create" and len(first.asked) > 20):
            gone.set()
            raise StorageTransientError(verb=verb, uri=path, reason="killed")

    with pytest.raises(TransientError):
        run = world.run(job_of(world, given, first, 2), storage=HookedStorage(world.storage, hook))
        raise StorageTransientError(verb="run", uri="", reason=str(run.cause))
    there = completed_splits(world, 2).keys()
    assert max(map(len, entries(world, 2))) > 1
    run_to_the_end(world, job_of(world, given, second, 2), given)
    assert sorted(second.asked[1:]) == sorted({split["id"] for split in given} - there)


@pytest.mark.slow
def test_only_the_splits_of_a_damaged_entry_are_read_again(world: World) -> None:
    """See R23 and FLIP-383."""
    given, read = splits(30), SplitReader()
    died = world.run(job_of(world, given, SplitReader()), storage=RefusedEntries(world.storage, "doubled", BATCH))
    assert died.status == "RESTARTING"
    lost = next(record for _, record in split_records(world, 0) if isinstance(record, Batch) and len(record.splits) > 2)
    partition = world.root / world.job_id / "vertices" / "parts" / "0" / "partition"
    (partition / lost.files[0].path).unlink()
    run_to_the_end(world, job_of(world, given, read), given)
    assert sorted(read.asked[1:]) == sorted(lost.splits)
    reconciled = world.state().reconciled
    assert reconciled is not None
    assert [size(reset.splits or ()) for reset in reconciled.reset] == [len(lost.splits)]
    assert reconciled.splits_kept == {"parts": 30 - len(lost.splits)}


# ---- a function for several splits


class ReadMany(SplitReader):
    """A function that gets several splits. ``calls``: the splits of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, ...]] = []

    def many(self, reader: Any, several: list[Any]) -> DataFrame:
        self.calls.append(tuple(split["id"] for split in several))
        frames = [self(reader, split) for split in several]
        return functools.reduce(DataFrame.union, frames)


def batched_job(world: World, given: Any, read: Callable[[Any, Any], DataFrame], most: int | None = None) -> Job:
    return job_of(world, given, read, most=most, batched=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_a_batched_function_is_called_once_for_splits_read_together(world: World, mode: str) -> None:
    given, read = splits(40), ReadMany()
    run_to_the_end(world, batched_job(world, given, read.many), given, mode=mode)
    planned, *calls = read.calls
    assert planned == ("part-0",)
    assert Counter(split for call in calls for split in call) == Counter(split["id"] for split in given)
    assert max(map(len, calls)) >= 8
    if mode == "batch":
        assert entries(world) == calls


def test_max_splits_per_batch_holds_for_a_batched_function(world: World) -> None:
    given, read = splits(12), ReadMany()
    run_to_the_end(world, batched_job(world, given, read.many, most=3), given)
    assert max(map(len, read.calls)) == 3


@pytest.mark.slow
def test_a_failing_batched_function_is_called_for_each_split_alone(world: World) -> None:
    given, plain = splits(16), ReadMany()

    def read(reader: Any, several: list[Any]) -> DataFrame:
        if any(split["id"] == "part-9" for split in several):
            raise ValueError("no such partition")
        return plain.many(reader, several)

    run = world.run(batched_job(world, given, read))
    assert run.status != "FINISHED"
    assert "part-9" in (run.cause or "")
    assert "no such partition" in (run.cause or "")
    assert set(names(0, 9)) <= {split for entry in entries(world) for split in entry}
    run_to_the_end(world, batched_job(world, given, plain.many), given)
    assert Counter(split for entry in entries(world) for split in entry) == Counter(split["id"] for split in given)


def test_columns_of_a_batched_function_get_the_order_of_the_plan(world: World) -> None:
    given, plain = splits(16), ReadMany()

    def read(reader: Any, several: list[Any]) -> DataFrame:
        frame = plain.many(reader, several)
        return frame.select("k", "id") if len(several) > 1 else frame

    run_to_the_end(world, batched_job(world, given, read), given)
