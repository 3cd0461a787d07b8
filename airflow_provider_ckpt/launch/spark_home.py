"""The Spark that a driver on this machine is started from."""

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
    """``conf``: the folder of its settings, which need not be there."""

    folder: Path
    conf: Path

    @property
    def version(self) -> str:
        """``4.2.0``; ``unknown`` of a folder without Spark's core."""
        found = [match[1] for match in map(_CORE.fullmatch, os.listdir(self.folder / "jars")) if match]
        return found[0] if found else "unknown"

    def class_path(self) -> list[str]:
        """What a JVM compares before it takes an archive: the folders, and each jar with its size and its time in
        seconds, in the order in which the JVM finds them."""
        lines = [str(self.conf), str(self.folder / "jars")]
        with os.scandir(self.folder / "jars") as entries:
            for entry in entries:
                if entry.name.lower().endswith(".jar"):
                    found = entry.stat()
                    lines.append(f"{entry.name} {found.st_size} {int(found.st_mtime)}")
        return lines

    def has_settings(self) -> bool:
        """Whether there is anything in the folder of settings, which is on the class path."""
        return self.conf.is_dir() and any(self.conf.iterdir())


def find_spark(environ: Mapping[str, str], submit: str | None = None) -> SparkHome | None:
    """SPARK_HOME, then where ``submit`` (a spark-submit) lies, then the package pyspark of this Python, which is not
    imported. None: no Spark with its jars is there."""
    home = environ.get("SPARK_HOME")
    folder = Path(home) if home else _of_submit(submit, environ) if submit else pyspark_folder()
    if folder is None or not (folder / "jars").is_dir():
        return None
    folder = folder.absolute()
    return SparkHome(folder, Path(environ.get("SPARK_CONF_DIR") or folder / "conf").absolute())


def pyspark_folder() -> Path | None:
    """Without importing it: a mixed tree might not even import."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _of_submit(submit: str, environ: Mapping[str, str]) -> Path | None:
    """A spark-submit that pip has put among an interpreter's programs looks for that one's pyspark."""
    found = shutil.which(submit, path=environ.get("PATH"))
    if found is None:
        return None
    programs = Path(found).absolute().parent
    if (programs.parent / "jars").is_dir():
        return programs.parent
    return pyspark_folder() if programs == Path(sys.executable).absolute().parent else None
