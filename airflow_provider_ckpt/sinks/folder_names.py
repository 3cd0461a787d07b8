"""Detection of partition values that are too long for the name of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from airflow_provider_ckpt.sinks.errors import RowsRefusedError
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.spark_exceptions import texts

_LONGEST = 255
"""Maximum number of bytes in a file name on most file systems and HDFS."""
_FOLDER = re.compile(r"(?:(?<=/)|(?<=limit of ))([^/=]+)=([^/]*?)(?=/| \(exists=| in directory |$)")
"""Pattern of a partition folder, (column, value), in the paths of Hadoop's errors. Spark has escaped both parts."""
_TOO_LONG = re.compile(r"Mkdirs failed|File name too long|PathComponentTooLong|component name limit")
"""Pattern of Hadoop's errors for a long name. On an object store these texts may have other causes."""


@contextmanager
def named_folders(partition_by: Sequence[str], context: SinkContext, handle: str) -> Iterator[None]:
    """Replace Spark's error for a partition folder whose name is too long, if the block raises it.

    Spark's own error is as long as the value and names neither the job nor the column. ``handle``: id of the batch,
    which is in every path that the block writes.

    Raises RowsRefusedError.
    """
    try:
        yield
    except Exception as error:
        longest = _longest(error, partition_by, handle)
        if longest is None:
            raise
        column, length = longest
        raise RowsRefusedError(
            "sink {sink!r} of job {job!r}: a row of batch {handle} has a value in {column!r}, by which its output "
            "is partitioned, that is too long for the name of a folder: as Spark writes it the name has {bytes} "
            "bytes, and file systems take 255. Nothing of the batch is acknowledged or visible, and none of it is "
            "lost. Shorten such values in the job (left, sha2) and resume with --resume-failed; a new job may "
            "partition by another column.",
            sink=context.uid,
            job=context.job_id,
            handle=handle,
            column=column,
            bytes=length,
        ) from None


def _longest(error: BaseException, partition_by: Sequence[str], path: str) -> tuple[str, int] | None:
    """Return (column, bytes) of the longest folder name in the error's lines with ``path``; None if it is allowed."""
    columns = {name.casefold(): name for name in partition_by}
    if not columns:
        return None
    widest = "", 0
    lines = (line for text in texts(error) for line in text.splitlines())
    for line in (line for line in lines if path in line and _TOO_LONG.search(line)):
        for name, value in _FOLDER.findall(line):
            column, length = columns.get(unquote(name).casefold()), len(f"{name}={value}".encode())
            if column is not None and length > widest[1]:
                widest = column, length
    return widest if widest[1] > _LONGEST else None
