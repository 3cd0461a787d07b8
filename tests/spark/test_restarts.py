"""Failed queries that restart alone while the driver runs the others: no row is lost or repeated."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.task.streaming.micro_batches import MicroBatches
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedStorage, at_prepared, fail_prepared
from tests.spark.harness import Run, World
from tests.spark.jobs import IDS, mixed
from tests.spark.split_jobs import SplitReader, ids_of, query_of_splits, splits
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

AGAIN: dict[str, Any] = {"restart_attempts": 3, "restart_delay": 0}


def at_first_calls(number: int, act: Callable[[], None] = fail_prepared) -> Callable[[], None]:
    """Return a function that calls ``act`` at its first ``number`` calls, and does nothing after that."""
    left = [None] * number

    def once_less() -> None:
        if left:
            left.pop()
            act()

    return once_less


def attempts(world: World, vertex: str) -> list[tuple[int, int]]:
    opened = [record.attempt for _, record in world.records(vertex) if isinstance(record, Open)]
    return [(attempt.epoch, attempt.number) for attempt in opened]


def batches(world: World, vertex: str) -> list[Batch]:
    return [record for _, record in world.records(vertex) if isinstance(record, Batch)]


def restarted(run: Run) -> list[str]:
    return [line["message"].partition(" ")[0] for line in run.of("subtask_restarting")]


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("number", [1, 3])
def test_a_query_that_fails_in_a_batch_restarts_while_the_run_continues(world: World, chain: bool, number: int) -> None:
    expected = world.put_ids("history", 3, 5) | world.put_ids("live", 3, 5, 1000)
    storage = HookedStorage(world.storage, at_prepared("doubled", number, fail_prepared))
    run = world.run(mixed(world, chain=chain), world.drain_at(len(expected)), storage=storage, **AGAIN)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert restarted(run) == ["doubled/0"]
    assert "restarts in 0 s (1 of 3), the others continue: " in run.of("subtask_restarting")[0]["message"]
    assert attempts(world, "doubled") == [(1, 0), (1, 1)]
    if not chain:
        assert attempts(world, "history") == [(1, 0)]
    assert world.state().restarts == {"doubled/0": 1}


def test_consumers_of_a_restarted_query_continue_in_its_log(world: World) -> None:
    expected = world.put_ids("history", 4, 5) | world.put_ids("live", 2, 5, 1000)
    storage = HookedStorage(world.storage, at_prepared("history", 2, fail_prepared))
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)), storage=storage, **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert restarted(run) == ["history/0"]
    assert (attempts(world, "history"), attempts(world, "doubled")) == ([(1, 0), (1, 1)], [(1, 0)])


def test_other_queries_commit_while_a_failed_one_waits(world: World) -> None:
    """The test observes progress: the failed query restarts only after another one has published a batch."""
    expected = world.put_ids("history", 6, 5)
    live = world.put_ids("live", 1, 5, 1000)
    job = mixed(world, chain=False)
    seen: list[int] = []

    def published() -> int:
        return world.newest_batch("history")

    def hook(verb: str, path: str) -> None:
        if "/doubled/0/prepared/" in path and verb == "replace" and not seen:
            seen.append(published())
            fail_prepared()
        if "/doubled/0/log/" in path and verb == "create" and len(seen) == 1:
            seen.append(len(world.state().checkpoints))  # the open entry of its next attempt
            while published() <= seen[0]:
                threading.Event().wait(0.05)
            seen.append(published())

    run = world.run(job, world.drain_at(len(expected | live)), storage=HookedStorage(world.storage, hook), **AGAIN)
    assert run.status == "FINISHED"
    assert world.released_ids() == sorted(expected | live)
    assert seen[2] > seen[0]


class FailingEntry(WrappedStorage):
    """A storage on which the append of batch ``number`` of the vertex fails.

    Retries fail too, until the next attempt opens the log. ``lands``: whether the entry is written although the append
    fails.
    """

    def __init__(self, inner: Storage, vertex: str, number: int, *, lands: bool, seen: list[str] | None = None) -> None:
        super().__init__(inner)
        self.vertex, self.number, self.lands, self.seen = vertex, number, lands, [] if seen is None else seen
        """The paths of the batches, and ``open`` for the next attempt."""

    def create(self, path: str, data: bytes) -> None:
        if f"/{self.vertex}/0/log/" in path:
            if b'"Open"' in data and len(self.seen) >= self.number:
                self.seen.append("open")
            if b'"Batch"' in data and "open" not in self.seen:
                self.seen.append(path)
                if len(self.seen) >= self.number:
                    if self.lands and len(self.seen) == self.number:
                        super().create(path, data)
                    raise StorageTransientError(verb="create", uri=path, reason="Input/output error")
        super().create(path, data)

    def _wrap(self, inner: Storage) -> FailingEntry:
        return FailingEntry(inner, self.vertex, self.number, lands=self.lands, seen=self.seen)


@pytest.mark.parametrize("lands", [False, True])
def test_r1_the_next_attempt_publishes_a_batch_with_a_failed_entry_once(world: World, lands: bool) -> None:
    """Spark has committed the batch, and the log refuses further entries of the failed attempt."""
    expected = world.put_ids("history", 3, 5) | world.put_ids("live", 2, 5, 1000)
    storage = FailingEntry(world.storage, "doubled", 2, lands=lands)
    run = world.run(mixed(world), world.drain_at(len(expected)), storage=storage, **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert attempts(world, "doubled") == [(1, 0), (1, 1)]
    ids = [batch.batch_id for batch in batches(world, "doubled")]
    assert ids == [*range(ids[0], ids[0] + len(ids))], (
        "on a slow machine the log has lost its first batches to truncation"
    )


def test_r7_the_next_attempt_writes_a_feed_that_failed(world: World) -> None:
    """The producer continues. No attempt before the next one feeds the batch that it publishes then."""
    expected = world.put_ids("history", 6, 5)
    live = world.put_ids("live", 6, 5, 1000)
    failed: list[str] = []

    def hook(verb: str, path: str) -> None:
        of_feed = verb == "create" and "/feeds/0001/_spark_metadata/" in path and not path.endswith("/0")
        if failed or not of_feed or threading.current_thread() is not threading.main_thread():
            return  # in another thread it may not happen: tests/task/test_gated_publication.py
        before = world.newest_batch("history")
        if before < 5:
            failed.append(path)
            wait_until(lambda: world.newest_batch("history") > before, "another batch of the producer")
            fail_prepared()

    job = mixed(world, chain=False)
    run = world.run(job, world.drain_at(len(expected | live)), storage=HookedStorage(world.storage, hook), **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected | live))
    assert restarted(run) == ["doubled/0"]


def test_windows_and_state_continue_in_the_next_attempt(world: World) -> None:
    for number in range(6):
        rows = [{"at": f"2026-01-01 00:{number:02d}:{second:02d}", "id": number} for second in range(0, 60, 20)]
        world.put("live", f"{number:03d}", rows)
    job = Job("counts")

    @job.source(max_files_per_trigger=1, watermark=("at", "30 seconds"))
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("at string, id long").parquet(world.path("live")).withColumn("at", F.to_timestamp("at"))

    @job.transform(inputs=[live])
    def counts(rows: DataFrame) -> DataFrame:
        grouped = rows.groupBy(F.window("at", "1 minute").alias("w")).agg(
            F.count("*").alias("n"), F.sum("id").alias("s")
        )
        return grouped.select(F.date_format("w.start", "HH:mm").alias("minute"), "n", "s")

    job.sink("out", counts, FileSink(world.path("out")))
    storage = HookedStorage(world.storage, at_prepared("counts", 4, fail_prepared))

    def read_all() -> bool:
        return world.newest_batch("counts") >= 5

    run = world.run(job, world.ask("drain", read_all), storage=storage, **AGAIN)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted((row["minute"], row["n"], row["s"]) for row in world.released()) == [
        (f"00:{number:02d}", 3, 3 * number) for number in range(6)
    ]
    assert restarted(run) == ["counts/0"]


def test_the_next_attempt_does_not_read_a_dropped_source(world: World) -> None:
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 1, 5, 1000)
    fails = at_first_calls(1)

    def hook(verb: str, path: str) -> None:
        if verb == "replace" and "/doubled/0/prepared/" in path and world.state().dropped:
            fails()

    def more(line: dict[str, Any]) -> None:
        if line["kind"] == "source_dropped":
            expected.update(world.put_ids("live", 2, 5, 2000))
        drain(line)

    drain = world.drain_at(20)
    run = world.run(mixed(world), more, HookedStorage(world.storage, hook), **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert restarted(run) == ["doubled/0"]
    assert "history" not in batches(world, "doubled")[-1].offsets


def test_a_query_that_keeps_failing_ends_the_run_and_the_next_resumes(world: World) -> None:
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 2, 5, 1000)

    def hook(verb: str, path: str) -> None:
        if verb == "replace" and "/doubled/0/prepared/" in path:
            fail_prepared()

    run = world.run(mixed(world), storage=HookedStorage(world.storage, hook), **AGAIN)
    assert run.status == "RESTARTING"
    assert "doubled/0: the storage failed to replace prepared: Input/output error (after 3 restarts in a row)" in str(
        run.cause
    )
    assert attempts(world, "doubled") == [(1, 0), (1, 1), (1, 2), (1, 3)]
    run = world.run(mixed(world), world.drain_at(len(expected)), **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


def test_only_data_of_the_last_two_failed_attempts_stays(world: World) -> None:
    """A consumer keeps the feed of the attempt and the feed from which the attempt resumed (R8).

    A producer keeps its published files and the files of the last attempt (R5).
    """
    expected = world.put_ids("history", 4, 5) | world.put_ids("live", 2, 5, 1000)

    def fails_in(vertex: str) -> HookedStorage:
        def hook(verb: str, path: str) -> None:
            if verb == "replace" and f"/{vertex}/0/prepared/" in path:
                fail_prepared()

        return HookedStorage(world.storage, hook)

    def there(part: str) -> set[str]:
        return {path.split(f"/{part}/")[1].split("/")[0] for path, _ in world.storage.files("") if f"/{part}/" in path}

    job = mixed(world, chain=False)
    world.run(job, storage=fails_in("history"), **AGAIN)
    assert attempts(world, "history") == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert [name.rsplit("-", 1)[0][:7] for name in there("data")] == ["0001-03"]
    world.run(job, storage=fails_in("doubled"), **AGAIN)
    assert attempts(world, "doubled")[-4:] == [(2, 0), (2, 1), (2, 2), (2, 3)]
    assert there("feeds") == {"0002-02", "0002-03"}
    run = world.run(job, world.drain_at(len(expected)), **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


@pytest.mark.parametrize("lands", [False, True])
def test_r23_only_the_failed_vertex_of_a_batch_job_runs_again(world: World, lands: bool) -> None:
    """The entries of the failed attempt are void."""
    expected = world.put_ids("history", 3, 5)
    job = Job("batch")

    @job.source(bounded=True, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path("out")))

    run = world.run(job, storage=FailingEntry(world.storage, "doubled", 1, lands=lands), **AGAIN)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert (attempts(world, "history"), attempts(world, "doubled")) == ([(1, 0)], [(1, 0), (1, 1)])


def test_only_a_failed_split_is_read_again(world: World) -> None:
    given, read = splits(6), SplitReader()
    fails = at_first_calls(2, lambda: (_ for _ in ()).throw(ConnectionError("the service is down")))

    def then(split: str) -> None:
        if split == "part-3":
            fails()

    read.then = then
    live = world.put_ids("live", 1, 5, 1000)
    job = query_of_splits(world, given, read)
    run = world.run(job, world.drain_at(len(live) + len(ids_of(given))), **AGAIN)
    assert run.status == "FINISHED"
    assert sorted(set(read.asked)) == sorted(split["id"] for split in given)
    assert len(restarted(run)) == 2


def test_a_running_driver_keeps_no_reference_to_ended_tasks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver keeps nothing of a replaced attempt or an ended run.

    The JVM's references to a query would keep it.
    """
    expected = world.put_ids("history", 2, 5) | world.put_ids("live", 2, 5, 1000)
    failed: list[str] = []
    made: list[weakref.ref[MicroBatches]] = []
    create = MicroBatches.__init__

    def created(batches: MicroBatches, *args: Any, **kwargs: Any) -> None:
        made.append(weakref.ref(batches))
        create(batches, *args, **kwargs)

    def fail_once(verb: str, path: str) -> None:
        if verb == "replace" and "/doubled/0/prepared/" in path and not failed:
            failed.append(path)
            raise StorageTransientError(verb=verb, uri=path, reason="Input/output error")

    def left() -> list[MicroBatches]:
        gc.collect()
        return [alive for alive in (each() for each in made) if alive is not None]

    monkeypatch.setattr(MicroBatches, "__init__", created)
    storage = HookedStorage(world.storage, fail_once)
    run = world.run(mixed(world), world.drain_at(len(expected)), storage=storage, **AGAIN)
    assert (run.status, restarted(run), len(made)) == ("FINISHED", ["doubled/0"], 2)
    wait_until(lambda: not left(), lambda: f"the end of {left()}", seconds=30)
