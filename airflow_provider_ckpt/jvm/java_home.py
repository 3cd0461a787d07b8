"""The Java that Spark's scripts would start, described by the files of its installation."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r'^(\w+)="(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class JavaHome:
    """A Java installation.

    Args:
        folder: The folder of the installation.
        version: For example ``17.0.15``.
        build: The version with everything that distinguishes two builds of it.
        vendor: The vendor of the build.
    """

    folder: Path
    version: str
    build: str
    vendor: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0].split("-")[0])


def find_java(environ: Mapping[str, str]) -> JavaHome | None:
    """Find Java as spark-class does: JAVA_HOME, then PATH.

    Return None if there is none, or if its files do not name its version. Asking the JVM would cost the time that an
    archive saves. Return None for OpenJ9, too, because it has other options.
    """
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return None
    try:
        folder = Path(java).resolve().parent.parent
        told = dict(_LINE.findall((folder / "release").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, RuntimeError):  # the last one for circular links
        return None
    version = told.get("JAVA_VERSION", "")
    if not re.match(r"\d+\b", version) or told.get("JVM_VARIANT", "").lower() == "openj9":
        return None
    build = told.get("JAVA_RUNTIME_VERSION") or told.get("FULL_VERSION") or told.get("SEMANTIC_VERSION") or version
    return JavaHome(folder, version, build, told.get("IMPLEMENTOR", ""))
