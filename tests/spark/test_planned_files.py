"""Planned files must exist: files that vanish between a batch's plan and its run, and names that are Spark globs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.spark.query.errors import UnreadableFileError
from airflow_provider_ckpt.spark.task.batch_files import refuse_other_files
from airflow_provider_ckpt.spark.task.errors import QueryFailedError
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, colon_name
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.task.errors import SourceFilesGoneError
from tests.spark.faults import HookedEntries, HookedStorage, at_prepared
from tests.spark.harness import Run, World, write_rows
from tests.spark.jobs import bounded, mixed
from tests.support.waiting import wait_until


def killed_when_planned(world: World, monkeypatch: pytest.MonkeyPatch, source: str, chain: bool) -> Run:
    """Let the driver die when a batch that reads from ``source`` is planned, before it stages anything."""
    with monkeypatch.context() as patched:
        stage = RunningQuery.foreach_batch

        def die(self: RunningQuery, frame: object, batch_id: int) -> None:
            if source in self._batches.inputs.planned(self._batches.folder.offsets(batch_id)):
                raise RuntimeError("killed")
            stage(self, frame, batch_id)  # type: ignore[arg-type]

        patched.setattr(RunningQuery, "foreach_batch", die)
        return world.run(mixed(world, chain=chain, max_files_per_trigger=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "chain"),
    [("history", True), ("live", True), ("history", False), ("history__doubled", False)],
    ids=["inline", "live", "own vertex", "edge"],
)
def test_a_lost_planned_file_fails_by_name_and_a_restored_one_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str, chain: bool
) -> None:
    expected = world.put_ids("history", 4, 2) | world.put_ids("live", 2, 2, 1000)
    assert killed_when_planned(world, monkeypatch, source, chain).status == "RESTARTING"
    gone = planned_file(world, source)
    kept = world.base / "kept"
    gone.rename(kept)
    failed = world.run(mixed(world, chain=chain, max_files_per_trigger=2))
    assert failed.status == "FAILED", failed.cause
    assert failed.cause is not None
    assert "next batch" in failed.cause
    assert repr(source) in failed.cause
    assert gone.name in failed.cause
    kept.rename(gone)
    again = mixed(world, chain=chain, max_files_per_trigger=2)
    run = world.run(again, world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


def planned_file(world: World, source: str) -> Path:
    """Return a file of the batch that is planned and not committed."""
    entries = [path for path in world.root.rglob(f"*/sources/{source}/*") if path.name.isdigit()]
    newest = max(entries, key=lambda path: int(path.name))
    line = json.loads(newest.read_text().splitlines()[1])
    return Path(line["path"].removeprefix("file://"))


# ---- file names that Spark takes for patterns


@pytest.mark.parametrize("name", ["x[1]", "x{a,b}", "x*", "x?", "x\\a"])
def test_a_file_name_with_glob_characters_is_refused_before_the_start(world: World, name: str) -> None:
    for folder in ("history", "live"):
        world.put_ids("history", 1, 2)
        world.put_ids("live", 1, 2, 1000)
        bad = Path(world.path(folder)) / f"{name}.parquet"
        write_rows(bad, [{"id": 5000, "k": 0}])
        with pytest.raises(UnreadableFileError, match="takes for a pattern") as refused:
            world.run(mixed(world))
        assert (refused.value.data["uid"], Path(refused.value.data["path"]).name) == (folder, bad.name)
        assert world.everything_under_root() == []
        bad.unlink()


def test_a_job_in_batch_mode_reads_a_file_name_with_glob_characters(world: World) -> None:
    expected = world.put_ids("history", 2, 2)
    write_rows(Path(world.path("history")) / "x[1].parquet", [{"id": 5000, "k": 0}])
    assert world.run(bounded(world)).status == "FINISHED"
    assert world.released_ids() == sorted(expected | {5000})


@pytest.mark.parametrize(("folder", "name"), [("live", "x[1]"), ("history", "x[1]"), ("live", "T10:00:00")])
def test_a_later_unreadable_name_fails_the_job_until_it_is_renamed(world: World, folder: str, name: str) -> None:
    expected = world.put_ids("history", 6, 2) | world.put_ids("live", 1, 2, 1000)
    bad = Path(world.path(folder)) / f"{name}.parquet"

    def come() -> None:
        """Write both files while a batch is paused, so that the source lists both at once.

        Spark orders them by their times.
        """
        world.put(folder, "beside", [{"id": 6000, "k": 0}])
        write_rows(bad, [{"id": 5000, "k": 0}], world.began + world.puts)

    def is_planned() -> bool:
        entries = [path for path in world.root.rglob(f"*/sources/{folder}/*") if path.name.isdigit()]
        return any("x%5B1%5D" in path.read_text() for path in entries)

    # the driver does not drop history earlier
    late_end = HookedEntries(world.storage, "SourceEnded", lambda: wait_until(is_planned, "the batch with the file"))
    failed = world.run(mixed(world), storage=HookedStorage(late_end, at_prepared("doubled", 2, come)))
    assert failed.status == "FAILED", failed.cause
    assert failed.cause is not None
    assert bad.name in failed.cause
    assert "Rename" in failed.cause
    bad.rename(bad.with_name("x1.parquet"))
    late = {5000, 6000}  # a bounded source may have ended before they come
    expected |= late if folder == "live" else set()
    run = world.run(mixed(world), world.drain_at(len(expected)), resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    released = world.released_ids()
    assert len(released) == len(set(released))
    assert expected <= set(released) <= expected | late


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_colon_in_the_name_of_a_local_file_is_refused_by_name(world: World, mode: str) -> None:
    expected = world.put_ids("history", 2, 2)
    bad = Path(world.path("history")) / "T10:00:00.parquet"
    write_rows(bad, [{"id": 5000, "k": 0}])
    with pytest.raises(UnreadableFileError, match=bad.name):
        world.run(bounded(world), mode=mode)
    bad.rename(bad.with_name("T10.parquet"))
    assert world.run(bounded(world), mode=mode).status == "FINISHED"
    assert world.released_ids() == sorted(expected | {5000})


# ---- without Spark


def folder_with(base: Path, *, newest: int, orphan: bool, name: str = "x%5B1%5D") -> SparkFolder:
    """Return a folder with batches 0 to ``newest`` planned and batch 0 committed.

    History took one file in each batch. The last file is ``name``.
    """
    storage = open_storage(base)
    for batch in range(newest + 1):
        body = ["v2", '{"batchWatermarkMs":0}', f'history:{{"logOffset":{batch}}}', 'kafka:{"topic":{"0":1}}', "rate:7"]
        storage.create(f"f/offsets/{batch}", "\n".join(body).encode())
    storage.create("f/commits/0", b"v1\n{}")
    last = newest + 1 if orphan else newest
    for batch in range(last + 1):
        file = name if batch == last else f"{batch}"
        line = json.dumps({"path": f"file:///d:d/{file}.parquet", "timestamp": 1, "batchId": batch})
        storage.create(f"f/sources/history/{batch}", f"v1\n{line}".encode())
    storage.create("f/sources/kafka/0", b'v1\n{"topic":{"0":1}}')
    storage.create("f/sources/rate/0", b"\xff\x00")
    return SparkFolder(storage, "f")


@pytest.mark.parametrize(
    ("newest", "orphan", "offsets", "taken"),
    [
        (1, False, 0, {"d:d/0.parquet"}),
        (1, True, 1, {"d:d/0.parquet", "d:d/1.parquet"}),
        (0, True, 0, {"d:d/0.parquet"}),
    ],
    ids=["planned", "taken behind a plan", "taken, nothing planned"],
)
@pytest.mark.parametrize("name", ["x%5B1%5D", "10:00"])
def test_only_a_plan_with_an_unreadable_name_is_deleted(
    tmp_path: Path, newest: int, orphan: bool, offsets: int, taken: set[str], name: str
) -> None:
    folder = folder_with(tmp_path, newest=newest, orphan=orphan, name=name)
    assert folder.delete_unreadable()
    assert (folder.newest_commit(), folder.newest_offsets()) == (0, offsets)
    assert SeenFiles(folder.storage, "f/sources/history").advance(100) == taken
    assert folder.storage.list("f/sources/kafka") == ["0"]
    assert not folder.delete_unreadable()


def test_a_plan_with_an_abandoned_file_is_deleted(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, newest=1, orphan=False, name="gone")
    assert not folder.delete_unreadable({"d:d/0.parquet", "of/another"})
    assert folder.delete_unreadable({"d:d/gone.parquet"})
    assert (folder.newest_commit(), folder.newest_offsets()) == (0, 0)
    assert SeenFiles(folder.storage, "f/sources/history").advance(100) == {"d:d/0.parquet"}


def test_a_colon_is_harmful_only_in_the_base_name_of_a_local_file() -> None:
    good = ["file:///d:d/a.json", "s3a://b/10:00.json", "file:///a%3Ab.json", "hdfs://nn:8020/a.json"]
    assert colon_name(good) is None
    assert colon_name([*good, "file:///d/10:00.json"]) == "d/10:00.json"
    assert colon_name(["file:/10:00.json"]) == "10:00.json"


def files(*names: str) -> list[FileStatus]:
    return [FileStatus(f"file:/{name}", 1, 1) for name in names]


def test_read_files_are_compared_with_planned_ones_for_each_source() -> None:
    planned = {"a": ["1", "2"], "b": ["2"], "c": []}
    read = refuse_other_files("v", planned, [files("2"), files("2", "1"), files("of another kind")])
    assert read == {"a": files("2", "1"), "b": files("2")}
    refuse_other_files("v", {"a": ["1"], "b": ["1"]}, [files("1"), files("1")])
    cases: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: refuse_other_files("v", {"a": ["1", "2"]}, [files("1")]), SourceFilesGoneError),
        (lambda: refuse_other_files("v", {"a": ["1", "2"]}, []), SourceFilesGoneError),
        (lambda: refuse_other_files("v", {"a": ["1", "2"]}, [files("1", "2", "1")]), QueryFailedError),
        (lambda: refuse_other_files("v", {"a": ["1"], "b": ["1"]}, [files("1")]), QueryFailedError),
    ]
    for case, error in cases:
        with pytest.raises(error):
            case()
