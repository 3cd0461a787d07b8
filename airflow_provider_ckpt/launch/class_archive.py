"""The class-data archive of one Java with one Spark: where it is kept, and whether there is one.

The number of its bytes is part of its name. A JVM that is given a shorter file than it expects does not go on without
it, but dies (SIGBUS, Java 17).
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

from airflow_provider_ckpt.launch.java_home import JavaHome, find_java
from airflow_provider_ckpt.launch.spark_home import SparkHome, find_spark
from airflow_provider_ckpt.launch.trust import check_ours

VARIABLE = "CKPT_CLASS_ARCHIVE"
OFF = "off"
_SPEAKABLE = re.compile(r"""[^"'\\:,%*]+""")
"""Paths that no quoting of spark-submit and no list of the JVM takes apart."""


@dataclass(frozen=True)
class ClassArchive:
    """``folder``: in which it is looked for."""

    folder: Path
    java: JavaHome
    spark: SparkHome

    @property
    def stem(self) -> str:
        """All that a JVM compares is in it."""
        facts = [str(self.java.folder), self.java.build, self.java.vendor, *self.spark.class_path()]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        return f"spark-{self.spark.version}-java-{self.java.version}-{digest}"

    def whole(self) -> list[Path]:
        """Those of it that are as long as they say; usually one. Nothing is said of whose they are."""
        if not self.folder.is_dir():
            return []
        return [path for path in sorted(self.folder.glob(f"{self.stem}.*.jsa")) if _is_whole(path)]

    def find(self) -> Path | None:
        """The archive, or None. Raises ForeignArchiveError."""
        for path in self.whole():
            check_ours(path)
            return path.parent.resolve() / path.name
        return None


def class_archive(environ: Mapping[str, str], submit: str | None = None) -> ClassArchive | None:
    """For the drivers that are started in ``environ``, by the spark-submit ``submit`` if it is not PySpark's own. None:
    it is switched off, or there is no Java or Spark to make one for."""
    folder = archive_folder(environ)
    if folder is None or os.name != "posix":
        return None
    java, spark = find_java(environ), find_spark(environ, submit)
    return None if java is None or spark is None else ClassArchive(folder, java, spark)


def archive_folder(environ: Mapping[str, str]) -> Path | None:
    """None: it is switched off, or the user has no folder for what can be made again, or one that cannot be said."""
    named = environ.get(VARIABLE, "")
    if named == OFF:
        return None
    try:
        folder = Path(named).expanduser() if named else _cache(environ) / "airflow-provider-ckpt" / "class-archives"
        folder = folder.absolute()
        said = (folder, folder.resolve())  # a JVM is told where it leads
    except (OSError, RuntimeError):  # a user without a home; links that lead in a circle
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
    if not os.access(path, os.R_OK):  # Java would go on without, and say nothing
        return False
    return stat.S_ISREG(found.st_mode) and path.suffixes[-2:-1] == [f".{found.st_size}"]
