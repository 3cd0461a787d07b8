"""Files that exist and that Spark omits silently.

Their rows would be lost although the job is FINISHED.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.errors import UnreadableFileError
from airflow_provider_ckpt.spark.query.sources import unlisted_files
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from tests.spark.harness import World, write_rows
from tests.spark.jobs import bounded, mixed

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
ROW = [{"id": 5000, "k": 0}]


@MODES
def test_a_file_name_unreadable_for_java_is_refused(world: World, mode: str) -> None:
    world.put_ids("history", 2, 2)
    write_rows(Path(world.path("history")) / "fine.parquet", ROW)
    bad = os.fsencode(world.path("history")) + b"/Z\xfcrich.parquet"
    os.rename(Path(world.path("history")) / "fine.parquet", bad)
    with pytest.raises(UnreadableFileError, match=r"Z.udcfcrich.parquet.*utf-8"):
        world.run(bounded(world), mode=mode)
    assert world.state().status is None
    os.rename(bad, os.fsencode(world.path("history")) + b"/Zuerich.parquet")
    assert world.run(bounded(world), mode=mode).status == "FINISHED"
    assert world.released_ids() == [0, 1, 2, 3, 5000]


def test_the_c_locale_allows_ascii_names_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' JVM runs in another locale, so the test replaces the encoding that the JVM reports."""
    monkeypatch.setattr(unlisted_files, "_encoding", lambda spark: "ascii")
    world.put_ids("history", 1, 2)
    world.put("history", "d=\u00fc/x", ROW)
    with pytest.raises(UnreadableFileError, match=r"LC_ALL=C\.UTF-8"):
        world.run(mixed(world))


@MODES
def test_a_folder_without_permission_is_refused(world: World, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may enter every folder, so the test replaces the system's answer."""
    world.put("history", "d=1/x", ROW)
    closed = str(Path(world.path("history")) / "d=1")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, how: str(path) != closed and access(path, how))
    with pytest.raises(UnreadableFileError, match="may not list and enter"):
        world.run(bounded(world), mode=mode)


def test_hidden_files_may_have_any_name(world: World) -> None:
    expected = world.put_ids("history", 1, 2)
    Path(os.fsdecode(os.fsencode(world.path("history")) + b"/.Z\xfc")).write_bytes(b"")
    assert world.run(bounded(world)).status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_a_looping_link_ends_and_other_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "in" / "d=1").mkdir(parents=True)
    (tmp_path / "in" / "d=1" / "back").symlink_to(tmp_path / "in")
    assert list(unlisted_files._unlisted(str(tmp_path / "in"), "ascii")) == []
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "\u00fc").touch()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "else")
    ((path, _),) = unlisted_files._unlisted(str(tmp_path / "in"), "ascii")
    assert path == str(tmp_path / "in" / "link" / "\u00fc")


def test_a_link_to_itself_has_no_rows_and_one_to_a_closed_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may enter every folder, so the test replaces the system's answer."""
    (tmp_path / "loop").symlink_to("loop")
    assert list(unlisted_files._unlisted(str(tmp_path), "utf-8")) == []

    class Closed:
        name, path = "link", "/in/link"

        def is_dir(self) -> bool:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", lambda folder: nullcontext([Closed()]))
    assert list(unlisted_files._unlisted(str(tmp_path), "utf-8")) == [
        ("/in/link", "it cannot be read (Permission denied)")
    ]


def test_a_folder_that_cannot_be_listed_does_not_count_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", broken)
    assert list(unlisted_files._unlisted(str(tmp_path), "utf-8")) == [
        (str(tmp_path), "it cannot be listed (Input/output error)")
    ]


@MODES
def test_a_file_next_to_partition_folders_of_history_is_refused(world: World, mode: str) -> None:
    world.put_ids("history", 1, 2)
    world.put("history", "d=1/x", ROW)
    with pytest.raises(UnreadableFileError, match=r"000000\.parquet lies beside"):
        world.run(bounded(world), mode=mode)
    assert world.released_ids() == []


def test_a_file_next_to_partition_folders_of_a_live_source_ends_the_job(world: World) -> None:
    job = Job("live")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id long, k long, d int").parquet(world.path("live"))

    job.sink("out", live, FileSink(world.path("out")))
    world.put("live", "beside", [{"id": 1, "k": 1}])
    world.put("live", "d=1/x", ROW)
    run = world.run(job)
    assert run.status == "FAILED"
    assert run.cause is not None
    assert "beside.parquet lies next to folders" in run.cause
    assert world.released_ids() == []


def test_partition_folders_alone_are_read(world: World) -> None:
    world.put("history", "d=1/x", [{"id": 1, "k": 1}])
    world.put("history", "d=2/x", [{"id": 2, "k": 1}])
    assert world.run(bounded(world)).status == "FINISHED"
    assert world.released_ids() == [1, 2]


def test_a_file_from_the_far_future_hides_no_later_file(world: World) -> None:
    """Spark forgets and omits files older than maxFileAge, counted from the newest file."""
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 1, 2, 1000)
    far = Path(world.path("live")) / "far.parquet"
    write_rows(far, [{"id": 2000, "k": 0}], 1e12)
    more: list[int] = []

    def later(line: dict[str, Any]) -> None:
        if 2000 in world.released_ids() and not more:
            more.extend(world.put_ids("live", 1, 2, 3000))
        drain(line)

    drain = world.drain_at(len(expected) + 3)
    run = world.run(mixed(world), later)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected | {2000, 3000, 3001})


@pytest.mark.parametrize(
    "uri", ["hdfs://nn:8020/in/0.json", "s3a://bucket/in/a b.json", "file:///c:x/in/f.json", "file:/in/f%20.json"]
)
def test_a_frozen_file_has_the_name_of_the_streams_log(uri: str) -> None:
    """One list has the listing's spelling, and the other has the stream's, which is escaped."""
    (frozen,) = FrozenFiles("history", (uri,)).normal
    assert frozen == normal_path(uri.replace("%", "%25").replace(" ", "%20"))
