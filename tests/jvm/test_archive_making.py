"""Creation of an archive. It is complete or absent. One process creates it, and the others continue without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ckpt.jvm import archive_making
from airflow_provider_ckpt.jvm.archive_making import LEFT, make, sweep
from airflow_provider_ckpt.jvm.class_archive import ClassArchive
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, ForeignArchiveError, NoClassArchiveError
from tests.jvm.conftest import submits, write_archive


def test_nothing_is_taken_for_an_archive_before_all_of_it_is_written(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(archive_making, "sync_file", lambda path: seen.append((path.endswith(".tmp"), archive.find())))

    def record(path: Path) -> None:
        write_archive(path)
        seen.append(archive.find())

    path = make(archive, record)
    assert seen == [None, (True, None)]
    assert path == archive.find()
    assert sorted(one.suffix for one in archive.folder.iterdir()) == [".jsa", ".lock"]


def test_the_archive_before_goes_when_there_is_another_one(archive: ClassArchive) -> None:
    def write_more(path: Path) -> None:
        path.write_text("more classes")

    first, second = make(archive, write_archive), make(archive, write_more)
    assert archive.whole() == [second] != [first]


def test_the_second_of_two_does_not_wait_and_makes_nothing(archive: ClassArchive) -> None:
    inner: list[Path | None] = []

    def record(path: Path) -> None:
        inner.append(make(archive, write_archive))
        write_archive(path)

    assert make(archive, record) is not None
    assert inner == [None]


KILLED = """
import os, sys, time
from pathlib import Path
from airflow_provider_ckpt.jvm.archive_making import LEFT, make, sweep
from airflow_provider_ckpt.jvm.class_archive import class_archive

def record(path):
    path.write_text("a part of")
    print("writes", flush=True)
    time.sleep(600)

make(class_archive(os.environ), record)
"""


def test_a_process_that_is_killed_leaves_nothing_that_counts_or_is_in_the_way(
    archive: ClassArchive, environ: Mapping[str, str]
) -> None:
    maker = subprocess.Popen([sys.executable, "-c", KILLED], env={**os.environ, **environ}, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    assert maker.stdout.readline() == b"writes\n"
    assert make(archive, write_archive) is None
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    assert archive.find() is None
    assert len(list(archive.folder.glob("*.tmp"))) == 1
    path = make(archive, write_archive)
    assert path is not None
    assert archive.find() == path
    assert list(archive.folder.glob("*.tmp")) == []


def left_by(folder: Path, name: str, seconds: float) -> Path:
    path = folder / name
    path.write_bytes(b"a JVM's last words")
    os.utime(path, (time.time() - seconds, time.time() - seconds))
    return path


def test_what_a_killed_process_s_jvm_writes_behind_the_next_one_goes_later(archive: ClassArchive) -> None:
    """The clean-up covers all versions of Java and Spark, because no later run uses an earlier version's files."""
    archive.folder.mkdir()
    old = [left_by(archive.folder, f"{stem}.7.tmp", 2 * LEFT) for stem in (archive.stem, "spark-4.1.0-java-17-ab")]
    new = left_by(archive.folder, "spark-4.1.0-java-17-ab.8.tmp", 0)
    foreign = left_by(archive.folder, "mine.tmp", 2 * LEFT)
    path = make(archive, write_archive)
    assert not any(one.exists() for one in old)
    assert [one.exists() for one in (new, foreign)] == [True, True]
    late = left_by(archive.folder, f"{archive.stem}.9.tmp", 2 * LEFT)
    sweep(archive.folder)
    assert (late.exists(), archive.find()) == (False, path)


def test_an_archive_that_the_jvm_does_not_take_is_not_kept(archive: ClassArchive) -> None:
    submits(archive.spark.folder, 1)
    with pytest.raises(ArchiveNotMadeError, match="of the JVM"):
        make(archive, write_archive)
    assert [one.suffix for one in archive.folder.iterdir()] == [".lock"]


def test_a_jvm_that_wrote_nothing_is_told_of(archive: ClassArchive) -> None:
    with pytest.raises(ArchiveNotMadeError, match="wrote nothing"):
        make(archive, lambda path: None)


def test_a_disk_without_room_is_named_once_what_a_killed_process_has_left_is_deleted(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.folder.mkdir()
    (archive.folder / f"{archive.stem}.1.tmp").write_bytes(b"what filled it")
    monkeypatch.setattr(archive_making, "ROOM", 1 << 60)
    with pytest.raises(ArchiveNotMadeError, match=r"has \d+ MB free"):
        make(archive, write_archive)
    assert [one.suffix for one in archive.folder.iterdir()] == [".lock"]


def test_nothing_is_written_into_a_folder_of_others(archive: ClassArchive) -> None:
    archive.folder.mkdir()
    archive.folder.chmod(0o777)
    with pytest.raises(ForeignArchiveError):
        make(archive, write_archive)
    assert list(archive.folder.iterdir()) == []


def test_where_no_jvm_would_take_it_none_is_made(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", "-Xshare:off")
        with pytest.raises(NoClassArchiveError, match="already has options for class sharing"):
            make(archive, write_archive)
    archive.spark.conf.mkdir()
    (archive.spark.conf / "spark-defaults.conf").touch()
    with pytest.raises(NoClassArchiveError, match="class path"):
        make(archive, write_archive)
