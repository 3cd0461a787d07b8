"""Dropped operators that stay dropped, and lost files that are noticed.

A lost file never counts as a file that never existed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.coordinator.errors import IllegalGraphChangeError
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.errors import SubtaskLogLostError
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.task import bounded_offsets
from tests.spark.faults import HookedStorage, at_prepared
from tests.spark.harness import Line, World, write_rows
from tests.spark.jobs import IDS, mixed, timed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

DAY = 86_400.0


def job_of_folders(world: World, *folders: str, factor: int = 1) -> Job:
    """Return a job with a vertex and a sink for each folder.

    The second vertex multiplies its ids by ``factor``.
    """
    job = Job("two")
    for number, folder in enumerate(folders):

        def read(reader: Any, folder: str = folder, number: int = number) -> DataFrame:
            rows: DataFrame = reader.schema(IDS).parquet(world.path(folder))
            return rows.withColumn("id", F.col("id") * (factor if number else 1))

        source = job.source(uid=f"s{number}")(read)
        job.sink(f"out{number}", source, FileSink(world.path(f"out{number}")))
    return job


def live_job(world: World) -> Job:
    job = Job("one")
    live = job.source(uid="live", max_files_per_trigger=1)(lambda read: read.schema(IDS).parquet(world.path("live")))
    job.sink("out", live, FileSink(world.path("out")))
    return job


def published_and_died(world: World, job: Job, vertices: tuple[str, ...], batches: int) -> None:
    """Let a driver and its storage die before a checkpoint completes.

    The driver's loop first waits until each log has ``batches`` batches.
    """
    gone: list[StorageTransientError] = []

    def hook(verb: str, path: str) -> None:
        if gone:
            raise gone[0]

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            wait_until(lambda: all(logged(world, uid) > batches for uid in vertices), "a batch in every log")
            gone.append(StorageTransientError(verb="create", uri=str(world.root), reason="gone"))
            raise gone[0]

    with suppress(TransientError):
        world.run(job, on_line, HookedStorage(world.storage, hook), checkpoint_interval=36_000)
    assert (world.state().last_completed, min(logged(world, uid) for uid in vertices) > batches) == (0, True)


def logged(world: World, vertex: str) -> int:
    return len(world.records(vertex))


# ---- operators that return


def test_r4_a_vertex_absent_at_a_restart_from_scratch_returns_empty(world: World) -> None:
    world.put_ids("a", 2, 3)
    expected = world.put_ids("b", 2, 3, 1000)
    published_and_died(world, job_of_folders(world, "a", "b", factor=-1), ("s0", "s1"), 1)
    begun = world.run(job_of_folders(world, "a"), world.ask("stop", lambda: world.released_count("out0") == 6))
    assert (begun.status, len(begun.of("anew"))) == ("STOPPED", 1)
    run = world.run(job_of_folders(world, "a", "b"), world.drain_at(6, "out0", "out1"))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids("out1") == sorted(expected)
    assert world.released_ids("out0") == [*range(6)]


def with_history(world: World, folder: str | None, uid: str = "history") -> Job:
    job = Job("history")
    inputs_: list[Any] = []
    if folder:
        inputs_.append(job.source(bounded=True, uid=uid)(lambda read: read.schema(IDS).parquet(world.path(folder))))
    inputs_.append(job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live"))))
    both = job.transform(inputs=inputs_, uid="both")(lambda rows: rows)
    job.sink("out", both, FileSink(world.path("out")))
    return job


def test_a_dropped_source_is_refused_under_its_old_name(world: World) -> None:
    """Under its old name the source would count as ended.

    The query remembers how far it was read, and the journal remembers its end.
    """
    first = world.put_ids("A", 1, 3) | world.put_ids("live", 1, 3, 1000)
    world.run(with_history(world, "A"), world.ask("stop", lambda: any(world.state().dropped.values())))
    world.put_ids("live", 1, 3, 2000)
    without = world.ask("stop", lambda: 2002 in world.released_ids())
    assert world.run(with_history(world, None), without, allow_non_restored_state=True).status == "STOPPED"
    assert "history" not in world.state().finished_operators()
    expected = first | world.put_ids("B", 2, 3, 100) | {2000, 2001, 2002}
    with pytest.raises(IllegalGraphChangeError, match="'history' was given up"):
        world.run(with_history(world, "B"))
    run = world.run(with_history(world, "B", "history2"), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_new_source_in_a_query_with_event_time_is_refused(world: World) -> None:
    """The rows of the new source would be late, because Spark's event time never goes back."""
    world.put_ids("live", 2, 10, 1_000_000)

    def make(*folders: str) -> Job:
        job = Job("late")
        sources = [
            job.source(uid=folder, bounded=folder == "history", watermark=("ts", "1 second"))(
                lambda read, folder=folder: timed(read.schema(IDS).parquet(world.path(folder)))
            )
            for folder in folders
        ]
        once = job.transform(inputs=sources, uid="once")(lambda rows: rows.dropDuplicates(["id", "ts"]))
        job.sink("out", once, FileSink(world.path("out")))
        return job

    world.run(make("live"), world.ask("stop", lambda: world.released_count() == 20))
    world.put_ids("history", 1, 10)
    with pytest.raises(IllegalGraphChangeError, match="'history' is new in the query of 'once'"):
        world.run(make("history", "live"))


# ---- lost files


@pytest.mark.parametrize("gone", ["live/0/log", "live"])
def test_a_lost_log_that_a_checkpoint_covers_is_refused(world: World, gone: str) -> None:
    """If the log counted as empty, every row would be read and released again."""
    world.put_ids("live", 4, 3)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 12))
    shutil.rmtree(world.root / "job" / "vertices" / gone)
    with pytest.raises(SubtaskLogLostError, match="live/0/log"):
        world.run(live_job(world))
    assert world.released_ids() == [*range(12)]


def test_lost_entries_that_a_consumer_has_read_are_refused(world: World) -> None:
    """No checkpoint covers the entries.

    The consumer would wait for their numbers and skip new entries that get them.
    """
    world.put_ids("history", 3, 5)

    def fail() -> None:
        raise StorageTransientError(verb="replace", uri="prepared", reason="gone")

    storage = HookedStorage(world.storage, at_prepared("doubled", 2, fail))  # after one published batch
    run = world.run(mixed(world, chain=False), storage=storage, checkpoint_interval=3600)
    assert run.status == "RESTARTING"
    log = world.root / "job" / "vertices" / "history" / "0" / "log"
    entries = sorted(path for path in log.iterdir() if path.suffix == ".json")
    away = {path: path.read_bytes() for path in entries[1:]}  # after "open"
    for path in away:
        path.unlink()
    before = sorted(world.everything_under_root())
    with pytest.raises(SubtaskLogLostError, match=r"history/0/log ends before entry 1, and doubled/0 has read it"):
        world.run(mixed(world, chain=False))
    assert [path for path in before if path not in world.everything_under_root()] == []
    assert not away.keys() & set(log.iterdir()), "the numbers of the lost entries are still free"
    for path, data in away.items():
        path.write_bytes(data)
    run = world.run(mixed(world, chain=False), world.drain_at(15))
    assert run.status == "FINISHED"
    assert world.released_ids() == [*range(15)]


def test_a_lost_end_of_a_finished_subtask_is_refused(world: World) -> None:
    """The subtask would never be deployed again, and its consumers would wait for its end forever."""
    world.put_ids("history", 1, 5)
    ended = world.ask("stop", lambda: "history/0" in world.state().finished)
    assert world.run(mixed(world, chain=False), ended).status == "STOPPED"
    log = world.root / "job" / "vertices" / "history" / "0" / "log"
    newest = max(path for path in log.iterdir() if path.suffix == ".json")
    data = newest.read_bytes()
    newest.unlink()
    with pytest.raises(SubtaskLogLostError, match="history/0"):
        world.run(mixed(world, chain=False))
    newest.write_bytes(data)
    run = world.run(mixed(world, chain=False), world.drain_at(5))
    assert run.status == "FINISHED"
    assert world.released_ids() == [*range(5)]


def test_r1_lost_batches_before_sparks_last_commit_are_refused(world: World) -> None:
    world.put_ids("live", 3, 3)
    published_and_died(world, live_job(world), ("live",), 3)
    log = world.root / "job" / "vertices" / "live" / "0" / "log"
    for path in sorted(log.iterdir())[-2:]:
        path.unlink()
    with pytest.raises(Exception, match="disagree"):
        world.run(live_job(world))
    assert world.released_ids() == []


@pytest.mark.parametrize("gone", ["out", "_ckpt-out", "_ckpt-out/job/out/manifests"])
def test_r9_a_lost_record_of_releases_is_refused(world: World, gone: str) -> None:
    world.put_ids("live", 2, 3)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 6))
    job = live_job(world)  # the job creates the folders that it names
    shutil.rmtree(world.base / gone)
    written = world.everything_under_root()
    with pytest.raises(OutputLostError, match="sink 'out'"):
        world.run(job)
    assert world.everything_under_root() == written


def test_r9_an_older_copy_of_the_root_is_refused_before_a_release(world: World) -> None:
    """The sink accepts the copy's empty checkpoints silently, until one has a number that is new to the sink."""
    world.put_ids("live", 1, 3)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 3))
    shutil.copytree(world.root, world.base / "copy")
    world.put_ids("live", 1, 3, 100)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 6))
    newer = world.base / "newer"
    world.root.rename(newer)
    (world.base / "copy").rename(world.root)
    written = world.everything_under_root()
    with pytest.raises(OutputLostError, match=r"sink 'out' has released checkpoint \d+, and the newest"):
        world.run(live_job(world))
    assert world.everything_under_root() == written
    shutil.rmtree(world.root)
    newer.rename(world.root)
    world.put_ids("live", 1, 3, 200)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 9))
    assert len(set(world.released_ids())) == 9


# ---- old files


def test_a_file_with_a_later_modification_time_is_not_read_again(world: World) -> None:
    """Spark forgets a file seven days after it was read, counted from the newest file."""
    now = time.time()
    old = Path(world.path("live")) / "old.parquet"
    write_rows(old, [{"id": 1, "k": 1}], now - 30 * DAY)
    write_rows(Path(world.path("live")) / "new.parquet", [{"id": 2, "k": 1}], now - 100)
    world.run(live_job(world), world.ask("stop", lambda: world.released_count() == 2))
    os.utime(old, (now, now))
    write_rows(Path(world.path("live")) / "z.parquet", [{"id": 3, "k": 1}], now + 1)
    world.run(live_job(world), world.ask("stop", lambda: 3 in world.released_ids()))
    assert world.released_ids() == [1, 2, 3]


def fail_for_a_vanished_file(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let a run fail because an old file of history vanished.

    Return a function that restores the file with its old time.
    """
    monkeypatch.setattr(bounded_offsets, "FIRST_CHECK", 0.5)
    now = time.time()
    first, aside = Path(world.path("history")) / "h1.parquet", world.base / "aside.parquet"
    write_rows(first, [{"id": 1, "k": 1}], now - 30 * DAY)
    write_rows(Path(world.path("history")) / "h2.parquet", [{"id": 2, "k": 1}], now - 100)
    world.put_ids("live", 1, 1, 1000)

    def hook(verb: str, path: str) -> None:
        if verb == "create" and "/log/" in path and first.exists() and not aside.exists():
            shutil.move(first, aside)

    failed = world.run(mixed(world), storage=HookedStorage(world.storage, hook))
    assert (failed.status, "h1.parquet" in (failed.cause or "")) == ("FAILED", True)
    return lambda: shutil.copy2(aside, first)  # type: ignore[return-value]


def test_a_restored_old_file_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_for_a_vanished_file(world, monkeypatch)()
    run = world.run(mixed(world), world.drain_at(3), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1, 2, 1000]


# ---- a stop wins over a drain


def test_a_stop_time_also_ends_a_drain(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain may take as long as history does. Here that is forever, because a file of history is gone."""
    fail_for_a_vanished_file(world, monkeypatch)
    monkeypatch.setattr(bounded_offsets, "FIRST_CHECK", 3600.0)
    drain = world.ask("drain", lambda: True)
    run = world.run(mixed(world), drain, resume_failed=True, stop_after=2.0)
    assert (run.status, run.cause) == ("STOPPED", None)
    assert world.state().answered  # the drain was accepted before
