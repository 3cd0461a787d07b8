"""How a class archive comes to lie where drivers look for it: whole, by one process at a time, or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_provider_ckpt.launch.class_archive import ClassArchive
from airflow_provider_ckpt.launch.errors import ArchiveNotMadeError, NoClassArchiveError
from airflow_provider_ckpt.launch.jvm_environ import SUBMIT, quiet_options, says_what_is_shared
from airflow_provider_ckpt.launch.trust import check_folder
from airflow_provider_ckpt.storage.posix import sync_file

LONGEST = 600.0
"""Seconds for a JVM to write the archive, or to be asked about it."""

LEFT = 3600.0
"""Seconds: nobody tries out for so long what a JVM has written."""
ROOM = 250 << 20
"""Bytes; one of Spark 4.2 is 190 MB."""


def make(archive: ClassArchive, record: Callable[[Path], None]) -> Path | None:
    """Have ``record`` write it, and give it its name; returns that. None: another process is making it. A process that
    is killed leaves a file that nobody takes for an archive, and that a later one deletes; its lock goes with it.

    Raises NoClassArchiveError, ForeignArchiveError, ArchiveNotMadeError, what ``record`` raises, and OSError of the
    folder.
    """
    _refuse(archive)
    archive.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    check_folder(archive.folder)
    stem = archive.stem
    with _alone(archive.folder / f"{stem}.lock") as alone:
        if not alone:
            return None
        for left in archive.folder.glob(f"{stem}.*.tmp"):
            left.unlink(missing_ok=True)
        sweep(archive.folder)
        _refuse_full_disk(archive.folder)
        made = archive.folder / f"{stem}.{os.getpid()}.tmp"
        try:
            record(made)
            _try_out(archive, made)
            return _publish(archive, stem, made)
        finally:
            made.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Delete what killed processes have left, of whatever Java and Spark: their JVMs write it when they end, which is
    behind the kill, and maybe behind the next one that made the archive. Raises OSError of the folder."""
    before = time.time() - LEFT
    for left in folder.glob("spark-*-java-*.tmp"):
        with suppress(OSError):  # another user's, in a folder that is shared, or gone by now
            if left.lstat().st_mtime < before:
                left.unlink()


def _refuse(archive: ClassArchive) -> None:
    if archive.spark.has_settings():
        problem = (
            f"{archive.spark.conf} is on the class path of Spark's JVMs, and Java takes no archive while there is "
            "anything in it. Give the settings to the jobs instead (conf of a connection or a task, --conf)"
        )
        raise NoClassArchiveError(problem=problem)
    if says_what_is_shared(os.environ):
        raise NoClassArchiveError(problem="the environment has options of its own for the classes that JVMs share")


def _refuse_full_disk(folder: Path) -> None:
    """The JVM that writes it says nothing that could be told."""
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        problem = f"{folder} has room for {free >> 20} MB more, and it takes some {ROOM >> 20}"
        raise ArchiveNotMadeError(problem=problem)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether nobody else holds the lock. The kernel gives it up for whoever dies; nobody waits for it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def _try_out(archive: ClassArchive, made: Path) -> None:
    """A JVM that must have it (-Xshare:on) ends with an error if it cannot be used."""
    if not made.exists():
        raise ArchiveNotMadeError(problem="the JVM that was to write it wrote nothing")
    options = [*quiet_options(archive), "-Xshare:on", f'"-XX:SharedArchiveFile={made}"', os.environ.get(SUBMIT, "")]
    environ = {**os.environ, SUBMIT: " ".join(options).strip(), "SPARK_HOME": str(archive.spark.folder)}
    command = [str(archive.spark.folder / "bin" / "spark-submit"), "--version"]
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ArchiveNotMadeError(problem=str(error)) from error
    if done.returncode:
        raise ArchiveNotMadeError(problem=f"the JVM does not take what it wrote: {(done.stdout + done.stderr)[-500:]}")


def _publish(archive: ClassArchive, stem: str, made: Path) -> Path:
    """All of it is on the disk before it has its name: a JVM dies of a part of it."""
    made.chmod(0o644)  # nothing of it is secret, and another user's drivers may use what root has made
    sync_file(str(made))
    path = archive.folder / f"{stem}.{made.stat().st_size}.jsa"
    before = [one for one in archive.folder.glob(f"{stem}.*.jsa") if one != path]
    made.rename(path)
    for one in before:
        one.unlink(missing_ok=True)
    return path
