"""The Java that Spark's scripts would start, as the files of its installation tell it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r'^(\w+)="(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class JavaHome:
    """``version``: ``17.0.15``; ``build``: with all that tells two builds of it apart, and ``vendor`` of whom."""

    folder: Path
    version: str
    build: str
    vendor: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0].split("-")[0])


def find_java(environ: Mapping[str, str]) -> JavaHome | None:
    """JAVA_HOME, then PATH, as spark-class does. None: there is none, or none that says what it is: asking the JVM
    itself would take as long as is to be gained. None of OpenJ9 either, which has other options."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return None
    try:
        folder = Path(java).resolve().parent.parent
        told = dict(_LINE.findall((folder / "release").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, RuntimeError):  # the last one of links that lead to themselves
        return None
    version = told.get("JAVA_VERSION", "")
    if not re.match(r"\d+\b", version) or told.get("JVM_VARIANT", "").lower() == "openj9":
        return None
    build = told.get("JAVA_RUNTIME_VERSION") or told.get("FULL_VERSION") or told.get("SEMANTIC_VERSION") or version
    return JavaHome(folder, version, build, told.get("IMPLEMENTOR", ""))
