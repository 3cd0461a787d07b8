"""Restores of a checkpoint (R4), by drivers that die during the restore."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import interrupted_restore
from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path, subtask_path
from airflow_provider_ckpt.subtasklog.records import Barrier, Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.spark.faults import HookedStorage, at_prepared
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS, depths, mixed
from tests.support.waiting import wait_until

Point = Callable[[str, str], bool]
"""Function of a verb and a path: whether the driver dies before it."""


VERTICES = ("history", "cleaned", "merged")


def uncovered_batches(world: World) -> dict[str, list[int]]:
    """Return for each vertex the positions of live batches that no checkpoint covers."""
    state = world.state()
    last = state.checkpoints[state.last_completed]
    return {
        vertex: [
            number
            for number, record in world.records(vertex)
            if isinstance(record, Batch) and number > last.subtasks[SubtaskId(f"{vertex}/0")].position
        ]
        for vertex in VERTICES
    }


def taken_by_spark(world: World) -> list[Path]:
    """Return the files that the edges' file sources have in their logs, in the newest attempt's folders."""
    files: set[str] = set()
    for vertex, edge in (("cleaned", "history__cleaned"), ("merged", "cleaned__merged")):
        attempts = f"{subtask_path(world.job_id, vertex, 0)}/spark"
        newest = max(name for name in world.storage.list(attempts) if not name.endswith(".json"))
        files |= SeenFiles(world.storage, f"{attempts}/{newest}/sources/{edge}").advance(1_000_000)
    return [Path("/", path) for path in sorted(files)]


def die_after_the_checkpoint(world: World) -> None:
    """Let a run without checkpoints die when every vertex has published.

    History has not ended by then, because the end of a source triggers a checkpoint.
    """
    dead: list[int] = []

    def die() -> None:
        wait_until(
            lambda: all(uncovered_batches(world).values()), lambda: f"a batch in every log: {uncovered_batches(world)}"
        )
        dead.append(1)

    hold = at_prepared("history", 2, die)

    def hook(verb: str, path: str) -> None:
        hold(verb, path)
        if dead:
            raise StorageTransientError(verb=verb, uri=path, reason="gone")

    with suppress(TransientError):
        run = world.run(depths(world), storage=HookedStorage(world.storage, hook), checkpoint_interval=36_000)
        assert (run.status, dead) == ("RESTARTING", [1]), run


def failed_run(world: World) -> tuple[set[int], str]:
    """Make two runs, after which every vertex has published more than the last checkpoint covers.

    Returns the ids and the checkpoint's folder.
    """
    expected = world.put_ids("history", 8, 1) | world.put_ids("live", 1, 2, 1000)
    assert world.stop_in_batch(depths(world), "history").status == "STOPPED"
    expected |= world.put_ids("live", 1, 2, 2000)
    die_after_the_checkpoint(world)
    # otherwise a restore and a resume would be the same, and no test here would notice a mix-up
    assert all(uncovered_batches(world).values()), uncovered_batches(world)
    assert not set(world.released_ids()) >= expected
    path = f"{world.root}/{world.job_id}/checkpoints/chk-{world.state().last_completed}"
    assert Path(path, "_metadata").exists()
    return expected, path


def dying(world: World, dies: Point) -> tuple[HookedStorage, list[str]]:
    """Return a storage that fails from a verb on for which ``dies`` is true, and the list of refused verbs.

    Only verbs after the record of the restore count.
    """
    refused: list[str] = []
    recorded: list[int] = []

    def hook(verb: str, path: str) -> None:
        if not recorded:
            if world.state().restored:
                recorded.append(1)
            else:
                return
        if refused or dies(verb, path):
            refused.append(f"{verb} {path}")
            raise StorageTransientError(verb=verb, uri=path, reason="gone")

    return HookedStorage(world.storage, hook), refused


def marker_of(vertex: str) -> Point:
    return lambda verb, path: verb == "create" and f"/{vertex}/0/spark/" in path and path.endswith(".json")


def reset_of(edge: str) -> Point:
    """Return the point at which a driver creates the feed of the edge for the second time."""
    begun: list[str] = []

    def again(verb: str, path: str) -> bool:
        if verb == "create" and f"{edge}/feeds/" in path and path.endswith("_spark_metadata/0"):
            begun.append(path)
        return len(begun) == 2

    return again


def first_batch(verb: str, path: str) -> bool:
    """Return True at the first batch: every log is restored, and the queries run."""
    return verb == "replace" and "/prepared/" in path


def restore_and_die(world: World, path: str, dies: Point, rows: int) -> bool:
    """Restore and die; return False if the run reached its end."""
    storage, refused = dying(world, dies)
    with suppress(TransientError):
        run = world.run(depths(world), world.drain_at(rows), storage, restore=path)
        assert run.status == ("RESTARTING" if refused else "FINISHED"), run
    return bool(refused)


def resume_from_latest(world: World, expected: set[int]) -> None:
    run = world.run(depths(world), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.released_ids("raw") == [*range(8)]


@pytest.mark.slow
def test_r4_a_restored_job_releases_everything_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries after the checkpoint are void in every log.

    Their input is read again, through the edges too.
    """
    monkeypatch.setattr(retention, "TRUNCATE_AT", 10_000)  # the test checks the checkpoint's barriers at the end
    expected, path = failed_run(world)
    void, number = uncovered_batches(world), world.state().last_completed
    files: list[Path] = []
    gone: list[Path] = []
    drain = world.drain_at(len(expected))

    def on_line(line: Line) -> None:
        if line["kind"] == "checkpoint" and not files:
            files.extend(taken_by_spark(world))
            gone.extend(file for file in files if not file.exists())
        drain(line)

    run = world.run(depths(world), on_line, restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.released_ids("raw") == [*range(8)]
    assert files
    assert not gone, "Spark must have read files of void batches, which are deleted"
    for vertex in VERTICES:
        live = dict(world.records(vertex))
        assert not live.keys() & set(void[vertex]), vertex
        assert any(isinstance(record, Barrier) and record.checkpoint == number for record in live.values()), vertex
        ids = [record.batch_id for record in live.values() if isinstance(record, Batch)]
        assert ids == sorted(set(ids)), vertex


@pytest.mark.slow
@pytest.mark.parametrize(
    "dies",
    [marker_of("history"), marker_of("cleaned"), reset_of("cleaned__merged"), marker_of("merged"), first_batch],
    ids=["first log", "second log", "feed", "third log", "running"],
)
def test_r4_resuming_from_latest_completes_a_crashed_restore(world: World, dies: Point) -> None:
    expected, path = failed_run(world)
    assert restore_and_die(world, path, dies, len(expected))
    resume_from_latest(world, expected)


@pytest.mark.slow
def test_r4_a_restore_interrupted_twice_is_completed(world: World) -> None:
    expected, path = failed_run(world)
    assert restore_and_die(world, path, marker_of("merged"), len(expected))
    assert restore_and_die(world, "latest", marker_of("cleaned"), len(expected))
    resume_from_latest(world, expected)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_r4_a_restore_can_crash_at_each_verb(world: World) -> None:
    for at in count(1):
        here = World(world.base / str(at))
        expected, path = failed_run(here)
        verbs = count(1)
        died = restore_and_die(here, path, lambda *_: next(verbs) == at, len(expected))  # noqa: B023
        print(f"verb {at} of the restore")
        if not died:
            return
        resume_from_latest(here, expected)


@pytest.mark.slow
def test_a_repeated_restore_resumes_after_a_later_checkpoint(world: World) -> None:
    """A supervisor repeats the same command.

    The driver must not refuse it, and must not restore a second time.
    """
    expected, path = failed_run(world)
    before = world.state().last_completed
    stopped = world.run(depths(world), world.ask("stop", lambda: True), restore=path)
    assert (stopped.status, world.state().last_completed > before) == ("STOPPED", True)
    run = world.run(depths(world), world.drain_at(len(expected)), restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_a_repeated_restore_calls_no_function_of_a_finished_source(world: World) -> None:
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000)

    def history_is_over() -> bool:
        return any(world.state().dropped.values())

    world.run(mixed(world), world.ask("stop", history_is_over))
    restore = f"chk-{world.state().last_completed}"
    world.run(mixed(world), world.ask("stop", lambda: True), restore=restore)
    shutil.rmtree(world.base / "history")
    expected |= world.put_ids("live", 1, 2, 2000)
    run = world.run(mixed(world), world.drain_at(len(expected)), restore=restore)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert not (world.base / "history").exists()  # the function would have created it
    assert world.released_ids() == sorted(expected)


@pytest.mark.slow
def test_a_vertex_added_after_a_restore_does_not_rewind_the_others(world: World) -> None:
    expected, path = failed_run(world)
    world.run(depths(world), world.ask("stop", lambda: True), restore=path)
    with_more = depths(world)

    @with_more.source
    def more(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("more"))

    with_more.sink("extra", more, FileSink(world.path("extra")))
    state = world.state()
    state.last_completed = state.restored  # as if the run had failed before its next checkpoint
    logs = {}
    for uid in ("history", "cleaned", "merged", "more"):
        logs[SubtaskId.of(uid, 0)] = SubtaskLog(world.storage, subtask_log_path(world.job_id, uid, 0))
        logs[SubtaskId.of(uid, 0)].load()
    assert interrupted_restore(world.storage, world.job_id, state, state.graph(), logs, "streaming") is None
    more_ids = world.put_ids("more", 1, 2, 5000)
    run = world.run(with_more, world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert set(world.released_ids("extra")) <= more_ids


def test_a_restore_of_an_older_checkpoint_is_refused(world: World) -> None:
    world.put_ids("history", 4, 2)
    world.put_ids("live", 2, 2, 1000)
    two = lambda: world.released_count() > 0 and world.state().last_completed >= 2  # noqa: E731
    world.run(mixed(world), world.ask("stop", two))
    written = world.everything_under_root()
    before = sorted(world.state().checkpoints)[-2]  # the first one may be deleted
    with pytest.raises(RestoreRefusedError, match="cannot take back"):
        world.run(mixed(world), restore=f"chk-{before}")
    assert world.everything_under_root() == written
