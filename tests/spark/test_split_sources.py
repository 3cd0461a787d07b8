"""Sources with splits: each split is read exactly once, over crashes and with any number of subtasks."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.errors import DefinitionChangedError, InvalidJobError, SplitsFailedError
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError, UnsupportedQueryError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.faults import Fault, FaultySink, FaultyStorage, HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.split_jobs import (
    EACH,
    SplitReader,
    completed_splits,
    done_splits,
    fail_at,
    ids_of,
    only_splits,
    query_of_splits,
    sink_of_splits,
    split_records,
    splits,
)
from tests.support.waiting import wait_until


def test_every_split_reaches_a_query_once(world: World) -> None:
    given, read = splits(9), SplitReader()
    live = world.put_ids("live", 1, 2, 1000)
    run = world.run(query_of_splits(world, given, read), world.drain_at(29))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted([*ids_of(given), *live])
    assert Counter(read.asked) == Counter(
        [split["id"] for split in given] + ["part-0"]
    )  # the plan reads the first split
    assert done_splits(world, given) == {split["id"] for split in given}


def test_every_split_reaches_a_sink_of_the_source_once(world: World) -> None:
    given = splits(7)
    live = world.put_ids("live", 1, 2, 1000)
    run = world.run(sink_of_splits(world, given, parallelism=3), world.drain_at(23 - 2, "raw"))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert (world.released_ids("raw"), world.released_ids()) == (ids_of(given), sorted(live))


def test_in_batch_mode_a_consumer_reads_all_rows_of_all_subtasks(world: World) -> None:
    given = splits(7)
    run = world.run(only_splits(world, given, parallelism=3))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == world.released_ids("raw") == ids_of(given)


# ---- empty splits and failing splits


def test_an_empty_split_completes_without_a_file(world: World) -> None:
    given = [{"id": "a", "first": 0, "rows": 3}, {"id": "none", "first": 3, "rows": 0}]
    run = world.run(only_splits(world, given, parallelism=1))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 2]
    batches = {
        name: record.files
        for _, record in split_records(world, 0)
        if isinstance(record, Batch)
        for name in record.splits
    }
    assert bool(batches["a"])
    assert batches["none"] == ()


def test_a_failed_split_is_named_and_the_next_run_reads_the_rest(
    world: World,
) -> None:
    given = splits(6)
    down = SplitReader(then=lambda split: fail_at(split, "part-4"))
    run = world.run(query_of_splits(world, given, down, parallelism=1))
    assert run.status == "RESTARTING"
    assert "split 'part-4' of source 'parts' failed: ConnectionError: the service is down" in str(run.cause)
    read = SplitReader()
    assert world.run(query_of_splits(world, given, read, parallelism=1), world.drain_at(18)).status == "FINISHED"
    assert read.asked == ["part-0", "part-4", "part-5"]  # the plan reads the first split
    assert world.released_ids() == ids_of(given)


def test_in_batch_mode_the_next_run_reads_only_incomplete_splits(world: World) -> None:
    """Each completion counts by itself (R14). Consumers begin when all splits are complete (R23)."""
    given = splits(4)
    down = SplitReader(then=lambda split: fail_at(split, "part-2"))
    assert world.run(only_splits(world, given, down, parallelism=1)).status == "RESTARTING"
    assert not world.released()
    read = SplitReader()
    assert world.run(only_splits(world, given, read, parallelism=1)).status == "FINISHED"
    assert read.asked == ["part-0", "part-2", "part-3"]
    assert world.released_ids() == world.released_ids("raw") == ids_of(given)


def test_a_split_with_other_columns_is_refused_by_name(world: World) -> None:
    job = Job("columns")

    @job.source(bounded=True, splits=["one", "two"])
    def parts(read: DataFrameReader, split: str) -> DataFrame:
        frame = read._spark.range(2)
        return frame if split == "one" else frame.withColumn("more", F.lit(1))

    job.sink("out", parts, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "FAILED"
    assert "split 'two' of source 'parts'" in str(run.cause)
    assert "struct<id:bigint,more:int> instead of struct<id:bigint>" in str(run.cause)


def test_columns_in_another_order_are_the_same_columns(world: World) -> None:
    job = Job("columns")

    @job.source(bounded=True, splits=[1, 2])
    def parts(read: DataFrameReader, split: int) -> DataFrame:
        frame = read._spark.createDataFrame([(split, -split)], "id long, k long")
        return frame.select("k", "id") if split == 2 else frame

    job.sink("out", parts, FileSink(world.path("out")))
    assert world.run(job).status == "FINISHED"
    assert sorted((row["id"], row["k"]) for row in world.released()) == [(1, -1), (2, -2)]


# ---- refusals before anything is written


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (list, "none at all"),
        (lambda: ["a", "b", "a"], "numbers 0 and 2 are both 'a'"),
        (lambda: [("a", 1)], "a tuple is no text, number, list or dict"),
        (lambda: [{1: "a"}], "1 is a key of a dict"),
        (lambda: "abc", "an object of type str"),
    ],
)
def test_ambiguous_or_unrecordable_splits_are_refused(world: World, given: Any, problem: str) -> None:
    with pytest.raises(InvalidJobError, match=problem):
        world.run(query_of_splits(world, given))
    assert world.everything_under_root() == []


def test_a_failing_function_of_splits_is_named_with_its_exception(world: World) -> None:
    def given() -> list[str]:
        raise LookupError("no catalogue")

    with pytest.raises(SplitsFailedError, match=r"'parts'.*LookupError: no catalogue"):
        world.run(query_of_splits(world, given))
    assert world.everything_under_root() == []


def test_a_function_that_changes_its_split_gets_the_original_each_time(world: World) -> None:
    """The function is also called for the plan, and again for a split that failed in a batch of several splits."""
    given, failed = splits(8), list[int]()

    def read(reader: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        first, split["id"] = split.pop("first"), "nobody"
        if first == 15 and not failed:
            failed.append(first)
            raise LookupError("not now")
        return reader._spark.range(first, first + split["rows"]).select("id", (F.col("id") % 3).alias("k"))

    runs = [world.run(only_splits(world, given, read, parallelism=2)) for _ in range(2)]  # type: ignore[arg-type]
    assert runs[-1].status == "FINISHED", runs[-1].cause
    assert runs[-1].of("warning") == []
    assert world.released_ids() == world.released_ids("raw") == ids_of(given) == ids_of(splits(8))


def test_a_function_that_calls_sys_exit_is_refused(world: World) -> None:
    """An exit code of 0 would make the job look finished."""
    with pytest.raises(SplitsFailedError, match=r"'parts'.*SystemExit: 0"):
        world.run(query_of_splits(world, lambda: sys.exit(0)))

    def then(split: str) -> None:
        sys.exit(0)

    with pytest.raises(FunctionFailedError, match=r"'parts'.*SystemExit: 0 \(split 'part-0'\)"):
        world.run(query_of_splits(world, splits(2), SplitReader(then=then)))
    assert world.everything_under_root() == []


def test_no_row_of_a_split_is_late_in_a_query_with_a_watermark(world: World) -> None:
    """The split with the newest rows is read first. The query holds event time while it reads splits (R13)."""

    def then(split: str) -> None:
        if split == "part-1":
            wait_until(lambda: world.newest_batch("windows") >= 0, "a micro-batch with the newest rows", seconds=60)

    job, reads = Job("late"), SplitReader(then=then)

    @job.source(bounded=True, splits=splits(2), parallelism=2, max_splits_per_batch=1)
    def parts(read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
        days = F.lit(100) - F.col("id")
        return reads(read, split).withColumn("ts", F.timestamp_seconds(days * 86_400))

    @job.transform(inputs=[parts])
    def windows(rows: DataFrame) -> DataFrame:
        counts = rows.withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 hour")).count()
        return counts.select(F.unix_seconds("window.start").alias("start"), "count")

    job.sink("out", windows, FileSink(world.path("out")))
    run = world.run(job, mode="streaming")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted((row["start"] // 86_400, row["count"]) for row in world.released()) == [
        (100 - number, 1) for number in reversed(ids_of(splits(2)))
    ]
    assert world.late_rows() == 0


def test_a_watermark_on_splits_that_cannot_be_left_out_is_refused(world: World) -> None:
    job = Job("late")

    @job.source(bounded=True, splits=["a"])
    def parts(read: DataFrameReader, split: str) -> DataFrame:
        return read._spark.range(1).withColumn("ts", F.current_timestamp())

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id long, ts timestamp").parquet(world.path("live"))

    @job.transform(inputs={"old": [parts], "new": [live]})
    def both(old: DataFrame, new: DataFrame) -> DataFrame:
        return old.withWatermark("ts", "1 hour").union(new)

    job.sink("out", both, FileSink(world.path("out")))
    with pytest.raises(UnsupportedQueryError, match="the result of 'parts', whose splits are read in no order"):
        world.run(job)
    assert world.everything_under_root() == []


# ---- the frozen list


def test_r11_a_run_with_another_list_uses_the_frozen_one_and_warns(world: World) -> None:
    given = splits(4)
    down = SplitReader(then=lambda split: fail_at(split, "part-3"))
    assert world.run(query_of_splits(world, given, down, parallelism=1)).status == "RESTARTING"
    other = [*given[:3], {"id": "part-9", "first": 900, "rows": 1}]
    run = world.run(query_of_splits(world, lambda: other, parallelism=1), world.drain_at(12))
    assert run.status == "FINISHED"
    warnings = [line["message"] for line in run.of("warning")]
    assert any("1 new: part-9; 1 gone: part-3" in message for message in warnings), warnings
    assert world.released_ids() == ids_of(given)


def test_the_function_that_lists_the_splits_is_called_once_a_run(world: World) -> None:
    calls: list[int] = []

    def given() -> list[dict[str, Any]]:
        calls.append(1)
        return splits(2)

    assert world.run(only_splits(world, given)).status == "FINISHED"
    assert len(calls) == 1


# ---- crashes, stops, restores, another parallelism


def run_into(world: World, fault: Fault, make: Any, given: Any, rows: int) -> str:
    job = make(world, given, sink=lambda path: FaultySink(path, fault=fault))
    try:
        run = world.run(job, world.drain_at(rows), FaultyStorage(world.storage, fault))
    except TransientError as error:
        return type(error).__name__
    assert run.status in ("FINISHED", "RESTARTING"), run
    return run.status


def die_and_recover(world: World, make: Any, at: int) -> bool:
    given, live = splits(5), world.put_ids("live", 1, 2, 1000)
    into_out = make is query_of_splits
    rows = len(live) + (5 * EACH if into_out else 0)
    fault = Fault(at, "after" if at % 2 else "before")
    ended = run_into(world, fault, make, given, rows)
    print(f"verb {at} ({fault.when}): {fault.verbs.log[at - 1 : at]} -> {ended}")
    run = world.run(make(world, given, sink=FaultySink), world.drain_at(rows))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted([*live, *(ids_of(given) if into_out else [])])
    assert into_out or world.released_ids("raw") == ids_of(given)
    assert done_splits(world, given) == {split["id"] for split in given}
    return fault.happened


@pytest.mark.parametrize("at", [12, 31, 44, 58])
@pytest.mark.parametrize("make", [sink_of_splits, query_of_splits], ids=["sink", "query"])
def test_the_next_run_finishes_a_crashed_one(world: World, make: Any, at: int) -> None:
    die_and_recover(world, make, at)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("make", [sink_of_splits, query_of_splits], ids=["sink", "query"])
def test_a_crash_at_each_verb_loses_and_repeats_nothing(world: World, make: Any) -> None:
    at = 1
    while die_and_recover(World(world.base / str(at)), make, at):
        at += 1


def test_a_kill_repeats_at_most_one_split_for_each_subtask(world: World) -> None:
    """Half of the splits are done, some are being read, and several more were handed out.

    They are read one by one.
    """
    given, first, second = splits(20), SplitReader(), SplitReader()
    gone = threading.Event()

    def hook(verb: str, path: str) -> None:
        if gone.is_set() or (verb == "create" and len(first.asked) > 10):
            gone.set()
            raise StorageTransientError(verb=verb, uri=path, reason="killed")

    try:
        world.run(query_of_splits(world, given, first, 3, most=1), storage=HookedStorage(world.storage, hook))
    except TransientError:
        pass
    assert gone.is_set()
    assert world.run(query_of_splits(world, given, second, 3, most=1), world.drain_at(60)).status == "FINISHED"
    again = Counter(first.asked[1:]) + Counter(second.asked[1:]) - Counter(split["id"] for split in given)
    assert sum(again.values()) <= 3, again
    assert world.released_ids() == ids_of(given)


def held(world: World, subtask_ended: int) -> Callable[[str], None]:
    """Return a function that fails from part-4 on.

    It waits until ``subtask_ended`` subtasks are finished in a completed checkpoint.
    """

    def then(split: str) -> None:
        if int(split.removeprefix("part-")) >= 4:
            wait_until(lambda: len(finished(world)) >= subtask_ended, f"{subtask_ended} finished subtasks")
            raise ConnectionError("on purpose")

    return then


def finished(world: World) -> set[int]:
    """Return the subtasks that are finished in the last completed checkpoint."""
    state = world.state()
    last = state.checkpoints.get(state.last_completed)
    if last is None:
        return set()
    of_parts = {name: snapshot for name, snapshot in last.subtasks.items() if name.startswith("parts/")}
    return {int(name.removeprefix("parts/")) for name, snapshot in of_parts.items() if snapshot.finished_on_restore}


@pytest.mark.parametrize("make", [sink_of_splits, query_of_splits], ids=["sink", "query"])
def test_checkpoints_continue_with_2_of_4_subtasks_finished(world: World, make: Any) -> None:
    """Six splits for four subtasks: two subtasks are stuck in the last two splits, and two have finished.

    See FLIP-147 and FLIP-27.
    """
    given, live = splits(6), world.put_ids("live", 1, 2, 1000)
    stuck = SplitReader(then=held(world, 2))
    first = world.run(make(world, given, stuck, parallelism=4))
    assert first.status == "RESTARTING", first
    state = world.state()
    last = state.checkpoints[state.last_completed]
    assert last.operators["parts"] == "partially finished"
    ended = finished(world)
    read = SplitReader()
    rows = len(live) + (18 if make is query_of_splits else 0)
    run = world.run(make(world, given, read, parallelism=5), world.drain_at(rows))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(read.asked[1:]) == ["part-4", "part-5"]
    assert world.state().graph().vertex("parts").parallelism == 7  # two have finished for good, five continue reading
    assert world.released_ids("raw" if make is sink_of_splits else "out")[: 6 * EACH] == ids_of(given)
    where = completed_splits(world, 7)
    assert not {where[split] for split in ("part-4", "part-5") if split in where} & ended
    assert done_splits(world, given, 7) == {split["id"] for split in given}


def test_another_parallelism_reads_the_rest_after_a_savepoint(world: World) -> None:
    given, first, second = splits(12), SplitReader(), SplitReader()
    at_six = threading.Event()

    def then(split: str) -> None:
        if int(split.removeprefix("part-")) >= 6:
            if not at_six.is_set():
                at_six.set()
                wait_until(lambda: world.state().status == "RUNNING", "a job that may be stopped")
                world.request("stop")
            wait_until(lambda: world.state().status != "RUNNING", "the stop")
            raise ConnectionError("the job is stopped")

    first.then = then
    # one by one: if the stop fails a split, splits that are read together with it are rightly read again
    run = world.run(query_of_splits(world, given, first, parallelism=2, most=1))
    assert run.status == "STOPPED", run
    assert world.run(query_of_splits(world, given, second, parallelism=3), world.drain_at(36)).status == "FINISHED"
    assert world.released_ids() == ids_of(given)
    assert len(second.asked) - 1 <= 6
    assert world.state().graph().vertex("parts").parallelism == 3


def test_r14_a_restore_returns_to_the_splits_of_its_checkpoint(world: World) -> None:
    """Splits read after the checkpoint are void and read again. Splits that it covers are not."""
    given, first, second = splits(8), SplitReader(), SplitReader()

    def then(split: str) -> None:
        number = int(split.removeprefix("part-"))
        if number == 4:  # part-0 to part-3 are in a checkpoint, and released
            wait_until(lambda: world.released_count() >= 4 * EACH, "a release")
        if number == 7:
            raise ConnectionError("on purpose")

    first.then = then
    run = world.run(query_of_splits(world, given, first, parallelism=1))
    assert run.status == "RESTARTING"
    state = world.state()
    covered = sum(end - start for start, end in covered_splits(state, "parts", state.last_completed))
    assert covered >= 4
    restore = f"chk-{state.last_completed}"
    run = world.run(query_of_splits(world, given, second, parallelism=2), world.drain_at(24), restore=restore)
    assert run.status == "FINISHED"
    assert sorted(second.asked[1:]) == [split["id"] for split in given[covered:]]
    assert world.released_ids() == ids_of(given)


def test_a_source_with_splits_cannot_become_one_without(world: World) -> None:
    def then(split: str) -> None:
        if split == "part-3":
            wait_until(lambda: world.released_count() > 0, "a release")
            raise ConnectionError("on purpose")

    assert world.run(query_of_splits(world, splits(4), SplitReader(then=then), parallelism=1)).status == "RESTARTING"
    job = Job("splits")

    @job.source(bounded=True, chain=False)
    def parts(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[parts, live])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path("out")))
    with pytest.raises(DefinitionChangedError, match="'with splits' became 'without splits'"):
        world.run(job)


def test_the_state_has_the_progress_of_splits(world: World) -> None:
    assert world.run(only_splits(world, splits(5))).status == "FINISHED"
    (progress,) = world.state().split_progress()
    assert (progress.source, progress.total, progress.done, progress.assigned, progress.left) == ("parts", 5, 5, 0, 0)
