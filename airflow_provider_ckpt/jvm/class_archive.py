"""The class-data archive of one Java with one Spark: its path and its validity.

The file's name contains its size in bytes. A JVM that is given a shorter file than it expects does not continue without
it but dies (SIGBUS, Java 17).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ckpt.jvm.java_home import JavaHome, find_java
from airflow_provider_ckpt.jvm.spark_home import SparkHome, find_spark
from airflow_provider_ckpt.jvm.trust import check_ours

VARIABLE = "CKPT_CLASS_ARCHIVE"
OFF = "off"
_SPEAKABLE = re.compile(r"""[^"'\\:,%*]+""")
"""Paths that need no quoting in spark-submit and in the JVM's lists."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive that ``folder`` may contain for one Java and one Spark."""

    folder: Path
    java: JavaHome
    spark: SparkHome

    @property
    def stem(self) -> str:
        """The part of the file's name that identifies Java and Spark by everything that a JVM compares."""
        facts = [str(self.java.folder), self.java.build, self.java.vendor, *self.spark.class_path()]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return f"spark-{self.spark.version}-java-{self.java.version}-{digest}"

    def whole(self) -> list[Path]:
        """Return the archives whose size agrees with their name; usually one. Their owner is not checked."""
        if not self.folder.is_dir():
            return []
        return [path for path in sorted(self.folder.glob(f"{self.stem}.*.jsa")) if _is_whole(path)]

    def find(self) -> Path | None:
        """Return the path of the archive, or None. Raises ForeignArchiveError."""
        for path in self.whole():
            check_ours(path)
            return path.parent.resolve() / path.name
        return None


def class_archive(environ: Mapping[str, str], submit: str | None = None) -> ClassArchive | None:
    """Return the archive for drivers that start in ``environ``; None if it is switched off or Java or Spark is
    missing.

    Args:
        environ: The environment of the drivers.
        submit: The spark-submit that starts them; None for PySpark's own.
    """
    folder = archive_folder(environ)
    if folder is None or os.name != "posix":
        return None
    java, spark = find_java(environ), find_spark(environ, submit)
    return None if java is None or spark is None else ClassArchive(folder, java, spark)


def archive_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of archives.

    Return None if archives are switched off, if the user has no cache folder, or if its path would need quoting.
    """
    named = environ.get(VARIABLE, "")
    if named == OFF:
        return None
    try:
        folder = Path(named).expanduser() if named else _cache(environ) / "airflow-provider-ckpt" / "class-archives"
        folder = folder.absolute()
        said = (folder, folder.resolve())  # a JVM gets the resolved path
    except (OSError, RuntimeError):  # a user without a home, or circular links
        return None
    return folder if all(_SPEAKABLE.fullmatch(str(one)) for one in said) else None


def _cache(environ: Mapping[str, str]) -> Path:
    told = environ.get("XDG_CACHE_HOME", "")
    return Path(told) if os.path.isabs(told) else Path.home() / ".cache"


def _is_whole(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    if not os.access(path, os.R_OK):  # Java would silently start without it
        return False
    return stat.S_ISREG(found.st_mode) and path.suffixes[-2:-1] == [f".{found.st_size}"]
