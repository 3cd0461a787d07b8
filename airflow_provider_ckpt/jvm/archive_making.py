"""The making of a class archive: one process at a time makes it, and publishes it only when it is whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_provider_ckpt.jvm.class_archive import ClassArchive
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, NoClassArchiveError
from airflow_provider_ckpt.jvm.jvm_environ import SUBMIT, quiet_options, says_what_is_shared
from airflow_provider_ckpt.jvm.trust import check_folder
from airflow_provider_ckpt.storage.posix import sync_file

LONGEST = 600.0
"""Seconds that a JVM may take to write the archive or to try it."""

LEFT = 3600.0
"""Seconds after which a temporary file is garbage, because no process tries an archive for so long."""
ROOM = 250 << 20
"""Free bytes required; the archive of Spark 4.2 has 190 MB."""


def make(archive: ClassArchive, record: Callable[[Path], None]) -> Path | None:
    """Have ``record`` write an archive, publish it under its final name and return its path.

    Return None if another process is making it. A killed process leaves a temporary file that is not taken for an
    archive. A later call deletes it. The kernel releases the lock.

    Raises NoClassArchiveError, ForeignArchiveError, ArchiveNotMadeError, the errors of ``record``, and OSError of the
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
    """Delete temporary files of killed processes, for any Java and Spark.

    Their JVMs write the file when they end, which is after the kill. A later process may already have made the archive.

    Raises OSError of the folder.
    """
    before = time.time() - LEFT
    for left in folder.glob("spark-*-java-*.tmp"):
        with suppress(OSError):  # another user's file in a shared folder, or a file that is already gone
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
        raise NoClassArchiveError(problem="the environment already has options for class sharing in JVMs")


def _refuse_full_disk(folder: Path) -> None:
    """Refuse a full disk, because the JVM that writes the archive reports no usable error."""
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        problem = f"{folder} has {free >> 20} MB free, and an archive needs up to {ROOM >> 20} MB"
        raise ArchiveNotMadeError(problem=problem)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Yield True if no other process holds the lock. Do not wait for it; the kernel releases it when its holder
    dies.
    """
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
    """Start a JVM that must use the archive (-Xshare:on). It ends with an error if the archive is unusable."""
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
    """Rename the archive to its final name after all its bytes are on disk, because a partial archive crashes a JVM."""
    made.chmod(0o644)  # it is not secret, and drivers of other users may use an archive that root has made
    sync_file(str(made))
    path = archive.folder / f"{stem}.{made.stat().st_size}.jsa"
    before = [one for one in archive.folder.glob(f"{stem}.*.jsa") if one != path]
    made.rename(path)
    for one in before:
        one.unlink(missing_ok=True)
    return path
