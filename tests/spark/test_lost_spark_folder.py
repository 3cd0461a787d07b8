"""A Spark checkpoint folder, or a part of it, that is lost between two runs.

The driver names it and refuses to run before it publishes or deletes anything. The job resumes exactly once the folder
is restored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.jobmaster.errors import RestoreRefusedError
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.folder_check import FolderCheck
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import LogFencedError
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.faults import Fault, FaultyStorage, HookedStorage, at_prepared, fail_prepared
from tests.spark.harness import World
from tests.spark.jobs import IDS, bounded, mixed
from tests.spark.spark_folders import damaged, newest_file, refuse_twice, spark_folder

Damage = Callable[[Path], list[Path]]
"""Function from the last attempt's folder to the files or folders that are damaged."""


def published(world: World, vertex: str) -> int:
    batches = [record.batch_id for _, record in world.records(vertex) if isinstance(record, Batch)]
    return max(batches, default=-1)


# ---- lost files


def source_entry(attempt: Path) -> list[Path]:
    return [newest_file(attempt / "sources" / "live")]


def marker(attempt: Path) -> list[Path]:
    return [attempt.with_name(f"{attempt.name}.json")]


def folder(attempt: Path) -> list[Path]:
    return [attempt]


def everything(attempt: Path) -> list[Path]:
    return [attempt.parent]


def committed(log: str) -> Damage:
    """Select the log entry of the newest committed batch.

    A batch that is only planned may be planned again.
    """

    def found(attempt: Path) -> list[Path]:
        return [attempt / log / newest_file(attempt / "commits").name]

    return found


def metadata(attempt: Path) -> list[Path]:
    return [attempt / "metadata"]


@pytest.mark.slow
@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_source_entry_truncated_at_a_line_end_is_refused(world: World, copies: int) -> None:
    """Spark would read, and the job release, the files that the entry no longer names a second time.

    ``copies``: number of attempts that have copied the entry from the previous attempt.
    """
    world.put_ids("live", 2, 5)
    job = Job("one")
    live = job.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    job.sink("out", live, FileSink(world.path("out")))
    for copied in range(copies + 1):
        if copied:
            world.put_ids("live", 1, 5, 100 * copied)
        last = 10 + 5 * copied
        assert world.run(job, world.ask("stop", partial(released, world, last))).status == "STOPPED"
    entry = spark_folder(world, "live") / "sources" / "live" / "0"
    assert len(entry.read_text().splitlines()) == 3
    with damaged(world, [entry], lambda whole: b"\n".join(whole.split(b"\n")[:2])):
        assert "checksum" in refuse_twice(world, job, "sources/live/")
    before = world.released_ids()
    added = world.put_ids("live", 1, 5, 1000)
    run = world.run(job, world.drain_at(len(before) + 5), resume_failed=True)
    assert run.status == "FINISHED"
    assert world.released_ids() == sorted([*before, *added])


def stopped_in_history(world: World, job: Job, reader: str = "doubled") -> None:
    """Stop the job in the middle of history, with something released. ``reader``: the vertex that reads history."""
    run = world.stop_in_batch(job, reader, when=lambda: world.released_count() > 0, mode="streaming")
    assert run.status == "STOPPED", run


LOSSES = {
    "source entry": (source_entry, "/sources/live/"),
    "marker": (marker, "holds no complete folder of an attempt"),
    "folder": (folder, "/commits/"),
    "everything": (everything, "holds no complete folder of an attempt"),
    "offsets": (committed("offsets"), "/offsets/"),
    "commits": (committed("commits"), "/commits/"),
    "metadata": (metadata, "/metadata"),
}


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 3], ids=["batch 0", "later"])
@pytest.mark.parametrize("lost", LOSSES)
def test_a_live_job_refuses_a_lost_file_and_resumes_once_it_is_back(world: World, lost: str, files: int) -> None:
    damage, names = LOSSES[lost]
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 2 * files, 2, 1000)
    job = mixed(world)
    run = world.run(job, world.ask("stop", lambda: world.released_count() >= len(expected)))
    assert run.status == "STOPPED", run
    assert (published(world, "doubled") == 0) == (files == 1)
    expected |= world.put_ids("live", 1, 2, 2000)
    with damaged(world, damage(spark_folder(world, "doubled"))):
        refuse_twice(world, mixed(world), names)
    run = world.run(mixed(world), world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


@pytest.mark.parametrize("lost", ["marker", "everything", "offsets"])
def test_a_bounded_job_refuses_a_lost_file_by_name(world: World, lost: str) -> None:
    """The bug: a new folder read files in a batch that the log took for a repeat.

    The job then waited for these files.
    """
    damage, names = LOSSES[lost]
    expected = world.put_ids("history", 4, 2)
    stopped_in_history(world, bounded(world))
    assert set(world.released_ids()) < expected
    with damaged(world, damage(spark_folder(world, "doubled"))):
        refuse_twice(world, bounded(world), names)
    run = world.run(bounded(world), resume_failed=True)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["empty", "half"])
@pytest.mark.parametrize("lost", ["offsets", "commits", "metadata", "source entry"])
def test_a_job_refuses_an_unreadable_file_and_resumes_once_it_is_back(world: World, lost: str, how: str) -> None:
    damage, names = LOSSES[lost]
    expected = world.put_ids("live", 2, 2, 1000) | world.put_ids("history", 1, 2)
    job = mixed(world)
    run = world.run(job, world.ask("stop", lambda: world.released_count() >= len(expected)))
    assert run.status == "STOPPED", run
    expected |= world.put_ids("live", 1, 2, 2000)
    content = (lambda whole: b"") if how == "empty" else (lambda whole: whole[: len(whole) // 2])
    with damaged(world, damage(spark_folder(world, "doubled")), content):
        refuse_twice(world, mixed(world), names)
    run = world.run(mixed(world), world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


def test_only_the_damaged_query_of_several_must_be_put_back(world: World) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    stopped_in_history(world, mixed(world, chain=False), "history")
    with damaged(world, everything(spark_folder(world, "doubled"))):
        refuse_twice(world, mixed(world, chain=False), "vertices/doubled/0/spark")
    run = world.run(mixed(world, chain=False), world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


def test_a_restore_without_the_folder_is_refused_as_incomplete(world: World) -> None:
    world.put_ids("history", 4, 2)
    stopped_in_history(world, bounded(world))
    asked = f"chk-{world.state().last_completed}"
    for lost in (marker, everything):
        with (
            damaged(world, lost(spark_folder(world, "doubled"))),
            pytest.raises(RestoreRefusedError, match="doubled/0/spark holds no complete Spark folder"),
        ):
            world.run(bounded(world), restore=asked)


# ---- complete and incomplete folders; no Spark runs here

PUBLISHED = Batch(3, {"live": '{"logOffset":2}', "ticks": "17"})


class CommittedFolder:
    """A folder with batches 0 to 4 committed and 5 planned. Batch 3 is the last published one."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.put("metadata", '{"id":"x"}')
        for number in range(6):
            self.offsets(number, number - 1)
            if number < 5:
                self.put(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
        for number in range(5):
            self.entry(f"{number}", number)

    def put(self, name: str, text: str) -> None:
        self.storage.replace(f"v/1/{name}", text.encode())

    def offsets(self, batch: int, entry: int) -> None:
        live = "-" if entry < 0 else f'{{"logOffset":{entry}}}'
        self.put(f"offsets/{batch}", f'v2\n{{"batchWatermarkMs":0}}\nlive:{live}\nticks:17')

    def entry(self, name: str, number: int) -> None:
        self.put(f"sources/live/{name}", f"v1\n{json.dumps({'path': 'file:///a', 'batchId': number})}")

    def delete(self, *names: str) -> None:
        for name in names:
            self.storage.delete(f"v/1/{name}")

    def check(self, last: Batch | None = PUBLISHED, *, restores: bool = False) -> None:
        FolderCheck(SparkFolder(self.storage, "v/1"), last, restores=restores).run()


@pytest.fixture
def committed_folder(tmp_path: Path) -> CommittedFolder:
    return CommittedFolder(open_storage(f"memory://{tmp_path}"))


def purged(committed_folder: CommittedFolder) -> None:
    committed_folder.delete("offsets/0", "offsets/1", "offsets/2", "commits/0", "commits/1", "commits/2")


def compacted(committed_folder: CommittedFolder) -> None:
    committed_folder.delete(*[f"sources/live/{number}" for number in range(5)])
    committed_folder.entry("9.compact", 9)
    committed_folder.entry("10", 10)


def not_planned(committed_folder: CommittedFolder) -> None:
    committed_folder.delete("offsets/5")


def not_committed(committed_folder: CommittedFolder) -> None:
    """Undo the commit of batch 4 and the plan of batch 5."""
    committed_folder.delete("offsets/5", "commits/4")


def nothing_read(committed_folder: CommittedFolder) -> None:
    committed_folder.entry("5", 5)
    committed_folder.put("sources/live/6", "v1")


def other_files(committed_folder: CommittedFolder) -> None:
    committed_folder.put("sources/live/.4.crc", "x")
    committed_folder.put("sources/live/.7.7f.tmp", "x")
    committed_folder.put("sources/ticks/0", "x")
    committed_folder.put("sources/dropped/4", "x")


@pytest.mark.parametrize(
    "state", [lambda committed_folder: None, purged, compacted, not_planned, not_committed, nothing_read, other_files]
)
def test_a_regular_state_of_sparks_folder_is_accepted(
    committed_folder: CommittedFolder, state: Callable[[CommittedFolder], None]
) -> None:
    state(committed_folder)
    committed_folder.check()
    committed_folder.check(None)


def test_a_restore_accepts_a_folder_with_later_batches(committed_folder: CommittedFolder) -> None:
    committed_folder.put("offsets/5", "")
    committed_folder.delete("offsets/4", "commits/4")
    committed_folder.check(restores=True)


def test_a_folder_of_a_query_that_never_ran_is_whole(committed_folder: CommittedFolder) -> None:
    committed_folder.storage.delete_tree("v/1")
    committed_folder.check(None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata", None),
        ("metadata", "{}"),
        ("offsets/4", None),
        ("offsets/4", 'v2\n{"batchWatermarkMs":0}\nlive:{"logOff'),
        ("offsets/5", ""),
        ("offsets/5", 'v2\n{"batchWa'),
        ("offsets/5", 'v2\n{"batchWatermarkMs":0}\nli'),
        ("commits/4", ""),
        ("commits/4", "v1\n"),
        ("sources/live/4", None),
        ("sources/live/2", None),
        ("sources/live/0", ""),
        ("sources/live/4", 'v1\n{"path":"fi'),
    ],
)
def test_a_missing_or_truncated_file_of_the_folder_is_named(
    committed_folder: CommittedFolder, name: str, text: str | None
) -> None:
    if text is None:
        committed_folder.delete(name)
    else:
        committed_folder.put(name, text)
    with pytest.raises(SparkFolderLostError, match=f"v/1/{name} "):
        committed_folder.check()


def test_a_missing_entry_after_the_newest_compacted_one_is_refused(committed_folder: CommittedFolder) -> None:
    compacted(committed_folder)
    committed_folder.offsets(5, 11)
    with pytest.raises(SparkFolderLostError, match="v/1/sources/live/11 is missing"):
        committed_folder.check()


def test_missing_commits_and_unpublished_offsets_are_refused(committed_folder: CommittedFolder) -> None:
    committed_folder.delete("commits/4", "commits/3")
    with pytest.raises(SparkFolderLostError, match="commits/3 is missing, and batch 3 is published"):
        committed_folder.check()
    committed_folder.put("commits/3", "v1\n{}")
    committed_folder.delete("offsets/5")
    with pytest.raises(SparkFolderLostError, match="offsets/3 names other offsets"):
        committed_folder.check(Batch(3, {"live": '{"logOffset":3}'}))


def test_only_an_attempt_without_published_batches_needs_no_folder(
    committed_folder: CommittedFolder,
) -> None:
    folders = AttemptFolders(committed_folder.storage, "v")
    folders.refuse_lost(None, None, restores=False)
    folders.refuse_lost(AttemptId(1, 0, "x"), None, restores=True)  # the new attempt takes over nothing
    with pytest.raises(SparkFolderLostError, match=r"v holds no complete folder .* \(there is: 1\), and batch 3"):
        folders.refuse_lost(None, PUBLISHED, restores=False)


@pytest.mark.parametrize("verb", [1, 2])
def test_a_failed_delete_of_a_folder_is_logged_and_repeated_later(
    committed_folder: CommittedFolder, verb: int, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, fault = AttemptId(1, 0, "x"), AttemptId(2, 0, "x"), Fault(once=True)
    folders = AttemptFolders(FaultyStorage(committed_folder.storage, fault), "w")
    for attempt in (first, second):
        folders.create(attempt, None)
        committed_folder.storage.replace(f"w/{attempt}/metadata", b"{}")
    fault.at = fault.verbs.count + verb
    folders.delete_kept_before(second, lambda: None)
    assert f"w/{first} cannot be deleted, and stays for now: the storage failed" in caplog.text
    assert committed_folder.storage.list(f"w/{first}") == ["metadata"]
    folders.delete_kept_before(second, lambda: None)
    assert sorted(committed_folder.storage.list("w")) == sorted([str(second), f"{second}.json"])


def test_a_fenced_attempt_deletes_no_folder(committed_folder: CommittedFolder) -> None:
    folders = AttemptFolders(committed_folder.storage, "w")
    folders.create(AttemptId(1, 0, "x"), None)

    def overtaken() -> None:
        raise LogFencedError(log="log", attempt="3", epoch=3)

    with pytest.raises(LogFencedError):
        folders.delete_kept_before(AttemptId(2, 0, "x"), overtaken)
    assert committed_folder.storage.list("w") == [f"{AttemptId(1, 0, 'x')}.json"]


def test_a_file_compacted_by_a_living_driver_is_checked_again(committed_folder: CommittedFolder) -> None:
    compacted(committed_folder)
    whole = committed_folder.storage.read("v/1/sources/live/10")
    reads: list[str] = []

    class Moving(SparkFolder):
        def newest_commit(self) -> int | None:
            if len(reads) == 1:
                committed_folder.storage.replace("v/1/sources/live/10", whole)
            reads.append("")
            return super().newest_commit()

    committed_folder.put("sources/live/10", "")
    FolderCheck(Moving(committed_folder.storage, "v/1"), PUBLISHED, restores=False).run()
    assert len(reads) == 2


def test_purged_and_compacted_files_do_not_count_as_lost(world: World) -> None:
    """Spark's logs are as short as possible, also in the attempts that resume from them."""
    conf = {
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    }
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 26, 2, 1000)

    def all_released() -> bool:
        return world.released_count() >= len(expected)

    for more in (2000, 3000):
        run = world.run(mixed(world), world.ask("stop", all_released), conf=conf)
        assert run.status == "STOPPED", run
        attempt = spark_folder(world, "doubled")
        names = {path.name for path in (attempt / "sources/live").iterdir()}
        assert "9.compact" in names
        assert "0" not in names
        assert not (attempt / "offsets/0").exists()
        expected |= world.put_ids("live", 1, 2, more)
    run = world.run(mixed(world), world.ask("drain", all_released), conf=conf)
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))


def test_the_previous_folder_stays_until_a_batch_is_published(world: World) -> None:
    """The folder stays even if several attempts fail, because a user may want to restore it."""
    expected = world.put_ids("live", 2, 5)

    good = Job("one")
    live = good.source(uid="live")(lambda read: read.schema(IDS).parquet(world.path("live")))
    good.sink("out", live, FileSink(world.path("out")))
    assert world.run(good, world.ask("stop", lambda: world.released_count() == 10)).status == "STOPPED"
    first = spark_folder(world, "live")
    expected |= world.put_ids("live", 1, 5, 100)
    for _ in range(2):
        storage = HookedStorage(world.storage, at_prepared("live", 1, fail_prepared))
        assert world.run(good, storage=storage).status == "RESTARTING"
        assert first.is_dir()
        assert first.with_name(f"{first.name}.json").is_file()
        assert len([path for path in first.parent.iterdir() if path.is_dir()]) == 2
    run = world.run(good, world.drain_at(len(expected)))
    assert (run.status, world.released_ids()) == ("FINISHED", sorted(expected))
    assert not first.exists()


def released(world: World, rows: int) -> bool:
    return world.released_count() == rows
