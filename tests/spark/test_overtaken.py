"""A driver that is fenced during its start does no harm (R5, R8).

Its successor runs in the middle of the start. Between opening its logs and its first batch a driver appends nothing, so
it does not notice the successor. It deletes leftovers of earlier attempts. These must not include anything from which
the successor resumes, whenever it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up, collect_garbage
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file_names import staging_folder
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import Open
from tests.spark.faults import HookedStorage, NothingIsPublished
from tests.spark.harness import World
from tests.spark.jobs import mixed
from tests.support.books import books
from tests.support.waiting import wait_until

Hook = Callable[[str, str], None]
Point = Callable[[str, str], bool]


@dataclass(frozen=True)
class HookedSink(FileSink):
    """A FileSink whose folder is reached through the hook."""

    hook: Hook = field(default=lambda verb, path: None, compare=False, repr=False)

    def bind(self, context: SinkContext) -> BoundFileSink:
        return self.bind_to(HookedStorage(open_storage(Path(self.path).parent), self.hook), context)


def job(world: World, hook: Hook = lambda verb, path: None) -> Job:
    """Return a job with a result partition, and with two sinks, so that there is a scratch copy as well."""
    return mixed(world, chain=False, sinks=("out", "too"), sink=lambda path: HookedSink(path, hook=hook))


def leave_leftovers(world: World) -> None:
    """Leave the remains of three attempts.

    The first attempt produced nothing. Spark committed the batches of the second attempt, which were not published. The
    third attempt only staged files.

    The first failure of a vertex ends a run. So the other vertex waits for the failure of history, which leaves most.
    """
    refused: list[str] = []

    def got_nowhere(verb: str, path: str) -> None:
        if verb == "replace" and "/prepared/" in path:
            if "/history/0/" in path:
                refused.append(path)
            wait_until(lambda: refused, "a batch of history that is staged")
            raise StorageTransientError(verb=verb, uri=path, reason="gone")

    unpublished = NothingIsPublished(world.storage)

    def committed(verb: str, path: str) -> None:
        if verb == "replace" and "/doubled/0/prepared/" in path:
            wait_until(lambda: unpublished.refused, "a batch of history that is committed")

    for storage in (HookedStorage(world.storage, got_nowhere), HookedStorage(unpublished, committed)):
        with suppress(TransientError):
            world.run(job(world), storage=storage)
    (data,) = world.root.rglob("history/0/partition/**/data")
    dead = next(record.attempt for _, record in world.records("doubled") if isinstance(record, Open))
    for place in (data, books(world.base / "out") / staging_folder(world.job_id, "out")):
        (place / f"{dead}-7-x").mkdir(parents=True)
        (place / f"{dead}-7-x" / "part").write_text("x")


def at_verb(verb: str, *parts: str) -> Point:
    return lambda its, path: its == verb and all(part in path for part in parts)


POINTS = {
    "a log is opened": at_verb("create", "doubled/0/log/"),
    "a folder is complete": at_verb("create", "doubled/0/spark/", ".json"),
    "a marker is deleted": at_verb("delete", "doubled/0/spark/", ".json"),
    "a folder is deleted": at_verb("delete_tree", "doubled/0/spark/"),
    "a prepared record is deleted": at_verb("delete", "history/0/prepared/"),
    "staged output is deleted": at_verb("delete_tree", "staging"),
    "partition data are deleted": at_verb("delete_tree", "/data/"),
    "a feed is deleted": at_verb("delete_tree", "/feeds/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_r8_a_driver_fenced_during_its_start_does_not_harm_its_successor(world: World, point: Point) -> None:
    expected = world.put_ids("history", 6, 2) | world.put_ids("live", 2, 2, 1000)
    leave_leftovers(world)
    before = world.state().epoch
    successors: list[str] = []

    def hook(verb: str, path: str) -> None:
        if not successors and point(verb, path) and world.state().epoch > before:
            successors.append(path)
            stop = world.ask("stop", lambda: world.released_count() >= 4 and world.released_count("too") >= 4)
            successors.append(world.run(job(world), stop).status)

    with pytest.raises((FencedError, LogFencedError)):
        # the drain would end the run if no driver overtook it
        world.run(job(world, hook), world.drain_at(len(expected), "out", "too"), HookedStorage(world.storage, hook))
    assert successors[1:] == ["STOPPED"]
    run = world.run(job(world), world.drain_at(len(expected), "out", "too"))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == world.released_ids("too") == sorted(expected)


def test_r8_a_driver_fenced_while_creating_its_folder_deletes_none(world: World) -> None:
    """The successor may be about to copy one of the earlier folders."""
    world.put_ids("history", 6, 2)
    world.put_ids("live", 2, 2, 1000)
    leave_leftovers(world)
    before = world.state().epoch
    claimed: list[int] = []
    deleted: list[str] = []

    def hook(verb: str, path: str) -> None:
        if not claimed and at_verb("create", "/0/spark/", ".json")(verb, path) and world.state().epoch > before:
            claimed.append(Journal(world.storage, world.job_id).claim("successor", Worker(), 0.0))
        elif claimed and verb.startswith("delete") and ("/spark/" in path or "/prepared/" in path):
            deleted.append(path)

    with pytest.raises((FencedError, LogFencedError)):
        world.run(job(world), lambda line: None, HookedStorage(world.storage, hook))
    assert (len(claimed), deleted) == (1, [])


# ---- each kind of deletion


def test_r8_folders_and_records_of_later_or_unknown_attempts_stay(tmp_path: Path) -> None:
    """The order is by epoch and number.

    An attempt with the same number is another process that believes it is this attempt.
    """
    storage = open_storage(tmp_path)
    mine = AttemptId(4, 2, "d")
    attempts = [AttemptId(3, 5, "a"), AttemptId(4, 0, "b"), mine, AttemptId(4, 2, "e"), AttemptId(4, 3, "f")]
    attempts.append(AttemptId(5, 0, "c"))
    folders, prepared = AttemptFolders(storage, "spark"), PreparedStore(storage, "prepared")
    for path in ("spark/kept/metadata", "prepared/kept.json"):
        storage.create(path, b"x")
    for attempt in attempts:
        storage.create(f"spark/{attempt}/metadata", b"x")
        folders.create(attempt, None)
        prepared.write(Prepared(attempt, 1, (), {}))
    folders.delete_before(mine)
    prepared.delete_before(mine)
    assert [attempt for attempt in attempts if storage.exists(f"spark/{attempt}/metadata")] == attempts[2:]
    assert [attempt for attempt in attempts if storage.exists(f"spark/{attempt}.json")] == attempts[2:]
    assert [attempt for attempt in attempts if prepared.read(attempt) is not None] == attempts[2:]
    assert storage.exists("spark/kept/metadata")
    assert storage.exists("prepared/kept.json")


def test_r5_the_collector_checks_the_fence_and_spares_later_epochs(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.put_ids("live", 1, 2, 1000)
    stopped = world.run(job(world), world.ask("stop", lambda: world.released_count() >= 2))
    assert stopped.status == "STOPPED"
    state, storage = world.state(), world.storage
    assert state.plan is not None
    graph = state.plan.graph
    sink = mixed(world).sinks[0].sink.bind(SinkContext(world.job_id, "out", {}))
    logs = load_logs(storage, world.job_id, graph)
    places = {
        "scratch": world.root / world.job_id / "vertices/doubled/0/scratch",
        "staging": books(world.base / "out") / staging_folder(world.job_id, "out"),
    }
    left_by = next(record.attempt for _, record in world.records("doubled") if isinstance(record, Open))
    names = [f"{left_by}-5-x", "0002-mine-5-x", "0003-next-5-x"]
    for place in places.values():
        for name in names:
            (place / name).mkdir(parents=True)
            (place / name / "part").write_text("x")

    def fenced() -> None:
        raise FencedError(job_id=world.job_id, epoch=3, attempt="next", worker="there", own_epoch=2)

    def left() -> list[set[str]]:
        return [{name for name in names if (place / name / "part").exists()} for place in places.values()]

    given = (storage, world.job_id, graph, logs, {"out": sink, "too": sink}, 2)
    with pytest.raises(FencedError):
        collect_garbage(*given, fenced)
    assert left() == [set(names), set(names)]
    collect_garbage(*given, lambda: None)
    assert left() == [set(names[1:]), set(names[1:])]


def test_a_job_unfinished_in_its_journal_is_not_cleaned_up(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.put_ids("live", 1, 2, 1000)
    assert world.run(job(world), world.ask("stop", lambda: world.released_count() >= 2)).status == "STOPPED"
    state, there = world.state(), world.everything_under_root()
    assert state.plan is not None
    clean_up(world.storage, world.job_id, state.plan.graph, {})
    assert world.everything_under_root() == there
