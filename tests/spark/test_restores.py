"""Going back to a checkpoint (R4), by drivers that die while they do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.errors import RestoreRefusedError, StorageTransientError, TransientError
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.restore import interrupted_restore
from airflow_provider_ckpt.storage.layout import subtask_log_path
from tests.spark.faults import Fault, FaultyStorage, HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS, depths, mixed

Point = Callable[[str, str], bool]
"""Whether the driver dies before this verb on this path."""


def failed_run(world: World) -> tuple[set[int], str]:
    """A run that published more than its last checkpoint covers; returns the ids and the checkpoint's folder."""
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    with suppress(TransientError):
        world.run(depths(world), world.drain_at(len(expected)), FaultyStorage(world.storage, Fault(75)))
    number = world.state().last_completed
    assert number > 0
    return expected, f"{world.root}/{world.job_id}/checkpoints/chk-{number}"


def dying(world: World, dies: Point) -> tuple[HookedStorage, list[str]]:
    """A storage that cannot be written any more from the first verb on, after the restore was recorded, for which
    ``dies`` is true; and the verbs it refused."""
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
    """A driver begins its feed, and begins it anew."""
    begun: list[str] = []

    def again(verb: str, path: str) -> bool:
        if verb == "create" and f"{edge}/feeds/" in path and path.endswith("_spark_metadata/0"):
            begun.append(path)
        return len(begun) == 2

    return again


def first_batch(verb: str, path: str) -> bool:
    """Every log is back, and the queries run."""
    return verb == "replace" and "/prepared/" in path


def restore_and_die(world: World, path: str, dies: Point, rows: int) -> bool:
    """False if the run got to its end."""
    storage, refused = dying(world, dies)
    with suppress(TransientError):
        run = world.run(depths(world), world.drain_at(rows), storage, restore=path)
        assert run.status == ("RESTARTING" if refused else "FINISHED"), run
    return bool(refused)


def go_on_from_latest(world: World, expected: set[int]) -> None:
    run = world.run(depths(world), world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.released_ids("raw") == [*range(8)]


def test_r4_a_job_goes_back_to_its_last_checkpoint_with_everything_released_once(world: World) -> None:
    """What was published after it is void in every log, and is read again, through the edges too."""
    expected, path = failed_run(world)
    run = world.run(depths(world), world.drain_at(len(expected)), restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert world.released_ids("raw") == [*range(8)]
    opened = [record for _, record in world.records("history") if isinstance(record, Open)]
    assert opened[-1].continues_at is not None


@pytest.mark.parametrize(
    "dies",
    [marker_of("history"), marker_of("cleaned"), reset_of("cleaned__merged"), marker_of("merged"), first_batch],
    ids=["first log", "second log", "feed", "third log", "running"],
)
def test_r4_going_on_from_latest_completes_a_restore_that_died_between_two_logs(world: World, dies: Point) -> None:
    expected, path = failed_run(world)
    assert restore_and_die(world, path, dies, len(expected))
    go_on_from_latest(world, expected)


def test_r4_a_restore_may_be_interrupted_twice(world: World) -> None:
    expected, path = failed_run(world)
    assert restore_and_die(world, path, marker_of("merged"), len(expected))
    assert restore_and_die(world, "latest", marker_of("cleaned"), len(expected))
    go_on_from_latest(world, expected)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_r4_a_restore_may_die_at_every_verb(world: World) -> None:
    for at in count(1):
        here = World(world.base / str(at))
        expected, path = failed_run(here)
        verbs = count(1)
        died = restore_and_die(here, path, lambda *_: next(verbs) == at, len(expected))  # noqa: B023
        print(f"verb {at} of the restore")
        if not died:
            return
        go_on_from_latest(here, expected)


def test_the_same_restore_again_goes_on_once_a_checkpoint_completed_after_it(world: World) -> None:
    """A supervisor starts the same command again; it must be neither refused nor taken back once more."""
    expected, path = failed_run(world)
    before = world.state().last_completed
    stopped = world.run(depths(world), world.ask("stop", lambda: True), restore=path)
    assert (stopped.status, world.state().last_completed > before) == ("STOPPED", True)
    run = world.run(depths(world), world.drain_at(len(expected)), restore=path)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def test_the_same_restore_again_calls_no_function_of_a_finished_source(world: World) -> None:
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
    assert not (world.base / "history").exists()  # the function would have made it
    assert world.released_ids() == sorted(expected)


def test_a_vertex_that_is_new_since_a_restore_does_not_take_the_others_back(world: World) -> None:
    expected, path = failed_run(world)
    world.run(depths(world), world.ask("stop", lambda: True), restore=path)
    with_more = depths(world)

    @with_more.source
    def more(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("more"))

    with_more.sink("extra", more, FileSink(world.path("extra")))
    state = world.state()
    state.last_completed = state.restored  # as if it had failed before its next checkpoint
    logs = {}
    for uid in ("history", "cleaned", "merged", "more"):
        logs[f"{uid}/0"] = SubtaskLog(world.storage, subtask_log_path(world.job_id, uid, 0))
        logs[f"{uid}/0"].load()
    assert interrupted_restore(world.storage, world.job_id, state, logs) is None
    more_ids = world.put_ids("more", 1, 2, 5000)
    run = world.run(with_more, world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)
    assert set(world.released_ids("extra")) <= more_ids


def test_another_checkpoint_below_the_last_one_is_refused_and_nothing_is_written(world: World) -> None:
    world.put_ids("history", 4, 2)
    world.put_ids("live", 2, 2, 1000)
    world.run(mixed(world), world.ask("stop", lambda: world.state().last_completed >= 2))
    written = world.everything_under_root()
    with pytest.raises(RestoreRefusedError, match="cannot take back"):
        world.run(mixed(world), restore="chk-1")
    assert world.everything_under_root() == written
