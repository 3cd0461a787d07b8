"""The Spark installation from which drivers on this machine start."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SparkHome:
    """A Spark installation. ``conf`` is the folder of its settings, which need not exist."""

    folder: Path
    conf: Path

    def class_path(self) -> Iterator[str]:
        """Yield texts for all that a JVM compares before it uses an archive: folders, and names, sizes, times of files.

        Times are in seconds, because an image of Docker stores no fractions.
        """
        for folder in (self.conf, self.folder / "jars"):
            yield str(folder)
            if folder.is_dir():
                with os.scandir(folder) as entries:
                    for entry in entries:
                        yield f"{entry.name} {entry.stat().st_size} {int(entry.stat().st_mtime)}"

    def has_settings(self) -> bool:
        """Return True if the folder of settings has any file. The folder is on the class path."""
        return self.conf.is_dir() and any(self.conf.iterdir())


def find_spark(environ: Mapping[str, str], submit: str | None = None) -> SparkHome | None:
    """Return the first Spark that has jars: SPARK_HOME, the folder of ``submit``, or pyspark (which is not imported).

    Return None if none of the three has jars. A wrong choice costs only time, because a JVM of another Spark does not
    use the archive. ``submit`` is a spark-submit; None for PySpark's own.
    """
    program = shutil.which(submit, path=environ.get("PATH")) if submit else None
    homes = [environ.get("SPARK_HOME"), Path(program).absolute().parent.parent if program else None, pyspark_folder()]
    for home in homes:
        if home and (Path(home) / "jars").is_dir():
            folder = Path(home).absolute()
            return SparkHome(folder, Path(environ.get("SPARK_CONF_DIR") or folder / "conf").absolute())
    return None


def pyspark_folder() -> Path | None:
    """Return pyspark's folder without an import, because a mixed installation might fail to import."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None
