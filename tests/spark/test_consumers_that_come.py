"""A query that has run gets or loses a reader.

A new reader reads each row that is published from then on, once. The remaining readers continue at their positions.
"""

from __future__ import annotations

import functools
from collections import Counter
from contextlib import suppress
from datetime import datetime, timezone

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.testing.crash import When
from tests.spark.faults import Fault, FaultyStorage, HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS

pytestmark = pytest.mark.slow


def every_tenth(rows: DataFrame) -> DataFrame:
    return rows.where("id % 10 = 0")


def unchanged(rows: DataFrame) -> DataFrame:
    return rows


def fed(world: World, *readers: str, bounded: bool = False, apart: str = "") -> Job:
    """Return a job live -> marked, which has a sink, and a query with a sink for each of the ``readers``.

    The reader ``apart`` reads its own source.
    """
    job = Job("fed")
    live = job.source(uid="live", bounded=bounded, max_files_per_trigger=1)(
        lambda read: read.schema(IDS).parquet(world.path("live"))
    )
    marked = job.transform(inputs=[live], uid="marked")(lambda rows: rows.withColumn("by", F.lit(1)))
    job.sink("out", marked, FileSink(world.path("out")))
    for uid in readers:
        source = marked
        if uid == apart:
            source = job.source(uid="other")(lambda read: read.schema("id long").parquet(world.path("other")))
        part = job.transform(inputs=[source], uid=uid)(every_tenth if uid.startswith("t") else unchanged)
        job.sink(f"{uid}_out", part, FileSink(world.path(f"{uid}_out")))
    return job


def run_and_stop(world: World, job: Job, first: int, files: int = 3, *, give_up: bool = False) -> set[int]:
    """Read ``files`` files of ten rows to their end and stop the job. Return the ids."""
    before = world.released_count("out")
    ids = world.put_ids("live", files, 10, first)
    stop = world.ask("stop", lambda: world.released_count("out") == before + 10 * files)
    run = world.run(job, stop, allow_non_restored_state=give_up)
    assert run.status == "STOPPED", run.cause
    return ids


def has_released(world: World, count: int) -> bool:
    return world.released_count("out") == count


def finish(world: World, job: Job, count: int) -> None:
    run = world.run(job, world.drain_at(count, "out"))
    assert (run.status, run.cause) == ("FINISHED", None)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param((), marks=pytest.mark.slow, id="the only one"),
        pytest.param(("b",), id="one more"),
        pytest.param(("b", "d"), marks=pytest.mark.slow, id="two more"),
    ],
)
def test_a_new_reader_reads_batches_published_from_then_on(world: World, first: tuple[str, ...]) -> None:
    """The names of the new readers sort before, between and after the others.

    The others keep the data written for them.
    """
    early = run_and_stop(world, fed(world, *first), 0)
    both = (*first, "a", "c")
    late = run_and_stop(world, fed(world, *both), 1000)
    later = run_and_stop(world, fed(world, *both), 2000)
    last = world.put_ids("live", 1, 10, 3000)
    finish(world, fed(world, *both), 100)
    for uid in first:
        assert world.released_ids(f"{uid}_out") == sorted(early | late | later | last)
    for uid in ("a", "c"):
        assert world.released_ids(f"{uid}_out") == sorted(late | later | last)
    assert world.released_ids("out") == sorted(early | late | later | last)


def test_removing_a_reader_drops_its_unread_rows(world: World) -> None:
    early = run_and_stop(world, fed(world, "a", "b", "c"), 0)
    with pytest.raises(IllegalGraphChangeError, match="that are gone: b, b_out"):
        world.run(fed(world, "a", "c"))
    late = run_and_stop(world, fed(world, "a", "c"), 1000, give_up=True)
    assert world.released_ids("a_out") == world.released_ids("c_out") == sorted(early | late)
    assert world.released_ids("b_out") == sorted(early)
    last = world.put_ids("live", 1, 10, 2000)
    finish(world, fed(world, "a", "b", "c"), 70)  # b returns as a new operator
    assert world.released_ids("b_out") == sorted(early | last)
    assert world.released_ids("a_out") == world.released_ids("c_out") == sorted(early | late | last)


def dies_with_its_plan(world: World, uid: str, *, is_in: bool) -> HookedStorage:
    """Return a storage that refuses writes once the journal has a plan with, or without, that operator."""
    before, gone = world.state().epoch, list[str]()

    def hook(verb: str, path: str) -> None:
        if verb == "create" and not gone:
            state = world.state()
            if state.epoch > before and (uid in state.graph().operators) is is_in:
                gone.append(path)
        if gone:
            raise StorageTransientError(verb=verb, uri=path, reason="the driver is dead")

    return HookedStorage(world.storage, hook)


def test_a_dropped_operator_needs_no_second_consent(world: World) -> None:
    """The driver dies before a checkpoint, so the last checkpoint still names the dropped operator."""
    early = run_and_stop(world, fed(world, "a", "b"), 0)
    for left in (("a",), ("a", "b"), ("a",)):
        storage = dies_with_its_plan(world, "b", is_in="b" in left)
        with pytest.raises(CkptError, match="the driver is dead"):
            world.run(fed(world, *left), storage=storage, allow_non_restored_state="b" not in left)
    late = run_and_stop(world, fed(world, "a"), 1000)
    finish(world, fed(world, "a", "b"), 60)
    assert world.released_ids("a_out") == sorted(early | late)
    assert world.released_ids("b_out") == sorted(early)


def ended(world: World, *sinks: str) -> Job:
    """Return a job with a live source and a bounded source that has these sinks."""
    job = Job("ended")
    history = job.source(uid="history", bounded=True)(lambda read: read.schema(IDS).parquet(world.path("history")))
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    for uid in sinks:
        job.sink(uid, history, FileSink(world.path(uid)))
    job.sink("out", live, FileSink(world.path("out")))
    return job


def test_a_dropped_sink_of_a_finished_source_can_return(world: World) -> None:
    """The sink returns before the next checkpoint. In the last one the sink is finished, because its source is."""
    ids = world.put_ids("history", 1, 10) | world.put_ids("live", 1, 10)
    run = world.run(ended(world, "a", "b"), world.ask("stop", lambda: "history" in world.state().finished_operators()))
    assert run.status == "STOPPED", run.cause
    with pytest.raises(CkptError, match="the driver is dead"):
        storage = dies_with_its_plan(world, "b", is_in=False)
        world.run(ended(world, "a"), storage=storage, allow_non_restored_state=True)
    finish(world, ended(world, "a", "b"), 10)
    assert world.released_ids("a") == world.released_ids("b") == world.released_ids("out") == sorted(ids)


def test_r7_partition_data_of_removed_readers_is_deleted(world: World) -> None:
    run_and_stop(world, fed(world, "a"), 0)
    run_and_stop(world, fed(world), 1000, give_up=True)
    partition = world.root / "job" / "vertices" / "marked" / "0" / "partition"
    assert [str(path) for path in partition.rglob("*.parquet")] == []
    world.put_ids("live", 1, 10, 2000)
    finish(world, fed(world, "t2"), 70)
    assert world.released_ids("t2_out") == [2000]


def test_a_reader_with_another_input_is_refused(world: World) -> None:
    run_and_stop(world, fed(world, "a", "b"), 0)
    with pytest.raises(IllegalGraphChangeError, match="'b' no longer reads 'marked'"):
        world.run(fed(world, "a", "b", apart="b"), allow_non_restored_state=True)


def joined(world: World, *producers: str) -> Job:
    """Return a job live -> each of the ``producers`` -> both, with a sink for each."""
    job = fed(world)
    parts = [job.transform(inputs=[job.operators["marked"]], uid=uid)(unchanged) for uid in producers]
    both = job.transform(inputs=parts, uid="both", chain=False)(unchanged)
    for part in parts:
        job.sink(f"{part.uid}_out", part, FileSink(world.path(f"{part.uid}_out")))
    job.sink("both_out", both, FileSink(world.path("both_out")))
    return job


def test_a_dropped_operator_may_not_return_as_input_of_a_running_query(world: World) -> None:
    """The query that reads it remembers by its name which of its files were read.

    Without the refusal, that query plans deleted files and can never run again.
    """
    early = run_and_stop(world, joined(world, "p", "q"), 0)
    late = run_and_stop(world, joined(world, "q"), 1000, give_up=True)
    with pytest.raises(IllegalGraphChangeError, match="'p' was given up earlier, and the query of 'both'"):
        world.run(joined(world, "p", "q"))
    last = world.put_ids("live", 1, 10, 2000)
    finish(world, joined(world, "p2", "q"), 70)
    assert sorted(row["id"] for row in world.released("both_out")) == sorted([*early, *early, *late, *last, *last])
    assert world.released_ids("p2_out") == sorted(last)


def test_a_new_reader_of_an_unfinished_bounded_source_is_refused(world: World) -> None:
    world.put_ids("live", 5, 10)
    world.stop_in_batch(fed(world, "a", bounded=True), "marked", mode="streaming")
    assert world.state().status == "STOPPED"
    with pytest.raises(IllegalGraphChangeError, match="the consumers of 'marked' have changed"):
        world.run(fed(world, "a", "b", bounded=True))
    assert world.run(fed(world, "a", bounded=True)).status == "FINISHED"
    assert world.released_ids("a_out") == [*range(50)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_new_reader_reads_each_row_once_over_repeated_crashes(world: World, when: When) -> None:
    early = run_and_stop(world, fed(world, "b"), 0)
    late: set[int] = set()
    died = 0
    for number in range(1, 11):
        late |= world.put_ids("live", 1, 10, 1000 * number)
        fault = Fault(30 * number, when)
        stop = world.ask("stop", functools.partial(has_released, world, 30 + len(late)))
        with suppress(CkptError):
            world.run(fed(world, "a", "b"), stop, FaultyStorage(world.storage, fault))
        died += fault.happened
    assert died > 3
    last = world.put_ids("live", 1, 10, 90_000)
    finish(world, fed(world, "a", "b"), len(early | late | last))
    assert world.released_ids("b_out") == sorted(early | late | last)
    assert world.released_ids("a_out") == sorted(late | last)


def windowed(world: World, *readers: str) -> Job:
    """Return a job whose ``readers`` count rows in windows of ten seconds.

    live, with event time -> marked, with a sink -> each of the ``readers``.
    """
    job = Job("windowed")
    live = job.source(uid="live", max_files_per_trigger=1, watermark=("ts", "5 seconds"))(
        lambda read: read.schema("id long, ts timestamp").parquet(world.path("live"))
    )
    marked = job.transform(inputs=[live], uid="marked")(lambda rows: rows.withColumn("by", F.lit(1)))
    job.sink("out", marked, FileSink(world.path("out")))
    for uid in readers:
        part = job.transform(inputs=[marked], uid=uid, chain=False)(by_window)
        job.sink(f"{uid}_out", part, FileSink(world.path(f"{uid}_out")))
    return job


def by_window(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
    return counted.select(F.col("window.start").cast("long").alias("at"), "n")


def test_r13_windows_of_a_new_reader_hold_rows_published_from_then_on(world: World) -> None:
    """A new or returned reader starts without the open windows and the watermark of an earlier life (R13)."""
    lives = [("w1",), ("w1", "w2"), ("w2",), ("w1", "w2")]
    seconds = iter(range(1000))
    published: dict[str, list[int]] = {}
    for turn, readers in enumerate(lives):
        published = {uid: published.get(uid, []) for uid in readers}
        for file in range(2):
            at = [3 * next(seconds) for _ in range(7)]
            world.put(
                "live",
                f"{turn}-{file}",
                [{"id": second, "ts": datetime.fromtimestamp(second, timezone.utc)} for second in at],
            )
            for seconds_read in published.values():
                seconds_read += at
        stop = world.ask("drain" if turn == 3 else "stop", functools.partial(has_released, world, 14 * (turn + 1)))
        run = world.run(windowed(world, *readers), stop, allow_non_restored_state=True)
        assert run.status == ("FINISHED" if turn == 3 else "STOPPED"), run.cause
    shown = {uid: [(row["at"], row["n"]) for row in world.released(f"{uid}_out")] for uid in ("w1", "w2")}
    wanted = {uid: sorted(Counter(second // 10 * 10 for second in at).items()) for uid, at in published.items()}
    assert sorted(shown["w2"]) == wanted["w2"]
    again = min(at for at, _ in wanted["w1"])
    assert sorted(window for window in shown["w1"] if window[0] >= again) == wanted["w1"]
