"""Functions that read from Spark's file index which files a node of a plan reads."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.storage.redaction import redact_given

_STATUS = re.compile(r"(?:\w+\{)+path=(.*); isDirectory=false; length=(\d+); .*?modification_time=(\d+);", re.DOTALL)
"""Pattern of the text of Hadoop's ``FileStatus``. Its subclasses, for example in S3A and ABFS, add more to the text."""
_SEPARATOR = "\0"
"""The only character besides the slash that cannot be in a file name."""


def index_of(leaf: Any) -> Any | None:
    """Return the ``InMemoryFileIndex`` of a leaf of a plan; None if the leaf is no file source of Spark itself.

    Return None also if the leaf has a file index of another class, as Delta's has.
    """
    if leaf.nodeName() != "LogicalRelation" or _kind(leaf.relation()) != "HadoopFsRelation":
        return None
    location = leaf.relation().location()
    return location if _kind(location) == "InMemoryFileIndex" else None


def statuses(index: Any) -> list[FileStatus]:
    """Return path, size and time of each file in an ``InMemoryFileIndex``. This takes two calls of the JVM."""
    text = index.allFiles().mkString(_SEPARATOR)
    return [read_status(line) for line in text.split(_SEPARATOR)] if text else []


def read_status(text: str) -> FileStatus:
    """Parse the text of Hadoop's ``FileStatus``. Raises TerminalError."""
    match = _STATUS.match(text)
    if match is None:
        raise TerminalError(
            "the file system describes a file as {status!r}, and this release cannot read the path, the size and the "
            "time in it. Read the files through another file system (docs/object-store.md), or report this text as a "
            "fault of this package",
            status=redact_given(text),
        )
    return FileStatus(match[1], int(match[2]), int(match[3]))


def beside_partitions(index: Any) -> str | None:
    """Return the normal path of a file that lies next to folders named ``column=value``; None if there is no such file.

    Spark reads only the files in these folders, and silently leaves out the files next to them. With such folders, this
    function takes one call of the JVM for each file and two for each folder. ``index``: an ``InMemoryFileIndex``.
    """
    spec = index.partitionSpec()
    if spec.partitionColumns().isEmpty():
        return None
    partitions = spec.partitions()
    paths = [partitions.apply(number).path().toUri().toString() for number in range(partitions.size())]
    read = {normal_path(path).rstrip("/") for path in paths}
    files = (normal_path(uri) for uri in index.inputFiles())
    return min((file for file in files if file.rpartition("/")[0] not in read), default=None)


def _kind(index: Any) -> str:
    return str(index.getClass().getSimpleName())
