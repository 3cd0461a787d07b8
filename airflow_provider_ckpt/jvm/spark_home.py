"""The Spark from which drivers on this machine start."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_CORE = re.compile(r"spark-core_[\d.]+-(.+)\.jar")


@dataclass(frozen=True)
class SparkHome:
    """A Spark installation. ``conf``, the folder of its settings, need not exist."""

    folder: Path
    conf: Path

    @property
    def version(self) -> str:
        """The version, such as ``4.2.0``; ``unknown`` without Spark's core."""
        found = [match[1] for match in map(_CORE.fullmatch, os.listdir(self.folder / "jars")) if match]
        return found[0] if found else "unknown"

    def class_path(self) -> list[str]:
        """Return what a JVM compares before it uses an archive, in the order of its class path.

        These are the folders, and each jar with its size and modification time in seconds.
        """
        lines = [str(self.conf), str(self.folder / "jars")]
        with os.scandir(self.folder / "jars") as entries:
            for entry in entries:
                if entry.name.lower().endswith(".jar"):
                    found = entry.stat()
                    lines.append(f"{entry.name} {found.st_size} {int(found.st_mtime)}")
        return lines

    def has_settings(self) -> bool:
        """Return True if the folder of settings, which is on the class path, has any file."""
        return self.conf.is_dir() and any(self.conf.iterdir())


def find_spark(environ: Mapping[str, str], submit: str | None = None) -> SparkHome | None:
    """Find Spark: SPARK_HOME, then the folder of ``submit``, then this Python's pyspark, which is not imported.

    Return None if none of them has jars.

    Args:
        environ: The environment of the drivers.
        submit: A spark-submit, or None for PySpark's own.
    """
    home = environ.get("SPARK_HOME")
    folder = Path(home) if home else _of_submit(submit, environ) if submit else pyspark_folder()
    if folder is None or not (folder / "jars").is_dir():
        return None
    folder = folder.absolute()
    return SparkHome(folder, Path(environ.get("SPARK_CONF_DIR") or folder / "conf").absolute())


def pyspark_folder() -> Path | None:
    """Return pyspark's folder without an import, because a mixed installation might fail to import."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _of_submit(submit: str, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of a spark-submit's Spark.

    A spark-submit that pip has installed among an interpreter's programs uses the pyspark of that interpreter.
    """
    found = shutil.which(submit, path=environ.get("PATH"))
    if found is None:
        return None
    programs = Path(found).absolute().parent
    if (programs.parent / "jars").is_dir():
        return programs.parent
    return pyspark_folder() if programs == Path(sys.executable).absolute().parent else None
