"""Values of partition columns that are too long for the name of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from airflow_provider_ckpt.sinks.errors import PartitionValueTooLongError
from airflow_provider_ckpt.sinks.raised import texts
from airflow_provider_ckpt.sinks.sink import SinkContext

_LONGEST = 255
"""Bytes of a name, in most file systems, and in HDFS."""
_FOLDER = re.compile(r"(?:(?<=/)|(?<=limit of ))([^/=]+)=([^/]*?)(?=/| \(exists=| in directory |$)")
"""In a path that Hadoop tells, of this machine or of HDFS; the names are as Spark has escaped them."""
_TOO_LONG = re.compile(r"Mkdirs failed|File name too long|PathComponentTooLong|component name limit")
"""What Hadoop says of it. An object store takes such names, and may fail at them for another reason."""


@contextmanager
def named_folders(partition_by: Sequence[str], context: SinkContext, handle: str) -> Iterator[None]:
    """A context in which Spark writes to a place named by ``handle``. Raises PartitionValueTooLongError for what it
    says of a folder there that cannot be made, which is as long as the value and names neither job nor column."""
    try:
        yield
    except Exception as error:
        found = _longest(error, partition_by, handle)
        if found is None:
            raise
        column, length = found
        raise PartitionValueTooLongError(
            sink=context.uid, job=context.job_id, handle=handle, column=column, bytes=length
        ) from None


def _longest(error: BaseException, partition_by: Sequence[str], place: str) -> tuple[str, int] | None:
    """The column of the longest name, and its bytes; None if the error is of something else. Lines that do not speak of
    the place may be of an input that has such folders, too."""
    columns = {name.casefold(): name for name in partition_by}
    if not columns:
        return None
    longest = "", 0
    lines = (line for text in texts(error) for line in text.splitlines())
    for line in (line for line in lines if place in line and _TOO_LONG.search(line)):
        for name, value in _FOLDER.findall(line):
            column, length = columns.get(unquote(name).casefold()), len(f"{name}={value}".encode())
            if column is not None and length > longest[1]:
                longest = column, length
    return longest if longest[1] > _LONGEST else None
