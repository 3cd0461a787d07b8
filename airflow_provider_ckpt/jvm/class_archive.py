"""A class-data archive, which makes the JVMs of one Java and one Spark start sooner.

A JVM ignores an archive that does not suit its Java and class path. This module adds two checks. A truncated archive
crashes a JVM (SIGBUS, Java 17), so a file's name ends with its size. A JVM runs code from the archive, so only the
driver's user and root may have write access to it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, ForeignArchiveError, NoClassArchiveError
from airflow_provider_ckpt.jvm.spark_home import SparkHome, find_spark
from airflow_provider_ckpt.storage.posix import sync_file

VARIABLE = "CKPT_CLASS_ARCHIVE"
OFF = "off"
SUBMIT = "SPARK_SUBMIT_OPTS"
TRAINING = [sys.executable, "-m", "airflow_provider_ckpt.spark.archive_training"]
"""A program that starts Spark and runs a few micro-batches."""
LONGEST = 600.0
"""Maximum duration in seconds of the training, and of the test of an archive."""
ROOT = 0
_NEEDS_NO_QUOTES = re.compile(r"""[^"'\\:,%*]+""")
"""Pattern of paths that need no quoting in spark-submit and in the JVM's options."""


@dataclass(frozen=True)
class ClassArchive:
    """The class-data archive of one Java and one Spark, which may not exist yet.

    ``folder`` is a path without links. ``stem`` is the file's name without size and suffix.
    """

    folder: Path
    java: str
    spark: SparkHome
    stem: str

    def files(self) -> list[Path]:
        """Return the archive files whose size agrees with their name, usually one. Their owners are not checked."""
        paths = self.folder.glob(f"{self.stem}.*.jsa")
        return [path for path in paths if path.name == f"{self.stem}.{path.lstat().st_size}.jsa"]

    def find(self) -> Path | None:
        """Return the path of the archive file; None if there is none. Raises ForeignArchiveError and OSError."""
        for path in self.files():
            check_owner(path, self.folder)
            return path
        return None


def class_archive(environ: Mapping[str, str], submit: str | None = None) -> ClassArchive | None:
    """Return the class-data archive for drivers with the environment ``environ``. Its file may not exist yet.

    Return None if archives are switched off, if there is no Spark, or if Java has no archives. ``submit`` is the
    spark-submit that starts the drivers; None for PySpark's own.
    """
    folder, release, spark = archive_folder(environ), _java_release(environ), find_spark(environ, submit)
    java = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release, re.MULTILINE)
    if folder is None or java is None or spark is None:
        return None
    class_path = "\n".join(spark.class_path())
    version = re.search(r"spark-core_[\d.]+-(.+?)\.jar", class_path)
    digest = hashlib.sha256(f"{release}\n{class_path}".encode()).hexdigest()[:16]
    stem = f"spark-{version[1] if version else 'unknown'}-java-{java[1]}-{digest}"
    return ClassArchive(folder, java[1], spark, stem)


def archive_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of archives; None if archives are off, or if its path is unknown or needs quoting."""
    setting, cache = environ.get(VARIABLE, ""), environ.get("XDG_CACHE_HOME", "")
    if setting == OFF:
        return None
    try:
        parent = Path(cache) if os.path.isabs(cache) else Path("~/.cache")
        folder = Path(setting or parent / "airflow-provider-ckpt" / "class-archives").expanduser().resolve()
    except (OSError, RuntimeError):  # a user without a home, or circular links
        return None
    return folder if _NEEDS_NO_QUOTES.fullmatch(str(folder)) else None


def _java_release(environ: Mapping[str, str]) -> str:
    """Return path and text of the file ``release`` of the Java that Spark's scripts use.

    Return "" for OpenJ9, and if the file cannot be read.
    """
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    try:
        release = Path(java or "java").resolve().parent.parent / "release"
        text = f"{release}\n{release.read_text(encoding='utf-8')}"
    except (OSError, UnicodeDecodeError, RuntimeError):  # RuntimeError for circular links
        return ""
    return "" if "openj9" in text.lower() else text


def check_owner(path: Path, folder: Path) -> None:
    """Refuse a file that a user other than this one and root could have written or replaced.

    Each folder above ``folder`` is checked too, because a user who can rename it can replace the file. All users may
    have write access to such a folder if it is sticky. Its group may have write access if it is root's group or this
    process's group (as in the images of Airflow).

    Raises ForeignArchiveError, and OSError for a missing path.
    """
    for part in (path, folder, *folder.parents):
        status, forbidden = part.lstat(), 0o022
        if part in folder.parents:
            is_own_group = status.st_gid in (ROOT, os.getegid())
            forbidden = 0 if status.st_mode & stat.S_ISVTX else 0o002 if is_own_group else 0o022
        if status.st_uid not in (ROOT, os.geteuid()):
            raise ForeignArchiveError(path=part, problem=f"belongs to another user (uid {status.st_uid})")
        if status.st_mode & forbidden:
            mode = stat.filemode(status.st_mode)
            raise ForeignArchiveError(path=part, problem=f"may be written to by others ({mode})")


def make(archive: ClassArchive) -> Path:
    """Make the archive and return its path. Several processes may do this in parallel.

    Raises NoClassArchiveError, ForeignArchiveError, ArchiveNotMadeError, and OSError of the folder.
    """
    if archive.spark.has_settings():
        problem = (
            f"{archive.spark.conf} is on the class path of Spark's JVMs, and Java takes no archive while there is "
            "anything in it. Give the settings to the jobs instead (conf of a connection or a task, --conf)"
        )
        raise NoClassArchiveError(problem=problem)
    archive.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    check_owner(archive.folder, archive.folder)
    before = archive.files()
    with tempfile.TemporaryDirectory(prefix="making-", dir=archive.folder) as work:
        made = Path(work, "classes.jsa")
        # The archive has no compiled code. So the quick compiler is enough for this short-lived JVM.
        printed = _run(archive, TRAINING, f'-XX:TieredStopAtLevel=1 "-XX:ArchiveClassesAtExit={made}"')
        if not made.exists():
            raise ArchiveNotMadeError(problem=f"the JVM wrote no archive: {printed}")
        submit = str(archive.spark.folder / "bin" / "spark-submit")
        _run(archive, [submit, "--version"], f'-Xshare:on "-XX:SharedArchiveFile={made}"')
        made.chmod(0o644)  # it is not secret, and drivers of other users may use an archive that root has made
        sync_file(str(made))
        path = made.rename(archive.folder / f"{archive.stem}.{made.stat().st_size}.jsa")
    for old in before:
        if old != path:
            old.unlink(missing_ok=True)
    return path


def _run(archive: ClassArchive, command: list[str], options: str) -> str:
    """Run a program, wait for the end of its JVM, and return the end of its output.

    Raises ArchiveNotMadeError if the program fails.
    """
    options = f"{options} {os.environ.get(SUBMIT, '')}".strip()
    environ = {**os.environ, "SPARK_HOME": str(archive.spark.folder), SUBMIT: options}
    try:
        completed = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ArchiveNotMadeError(problem=str(error)) from error
    if completed.returncode:
        problem = f"{' '.join(command)} failed ({completed.returncode}): {completed.stdout[-500:].strip()}"
        raise ArchiveNotMadeError(problem=problem)
    return completed.stdout[-500:].strip()
