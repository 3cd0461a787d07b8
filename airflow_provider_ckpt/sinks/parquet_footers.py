"""Row counts and columns from the footers of Parquet files. Counting rows while they are written would cost time."""

from __future__ import annotations

import json
from collections.abc import Collection
from io import BytesIO
from typing import Any

from airflow_provider_ckpt.concurrency import map_parallel
from airflow_provider_ckpt.sinks.errors import StagedFileUnusableError
from airflow_provider_ckpt.storage.storage import Storage

_MAGIC = b"PAR1"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_LENGTH = 8  # bytes: the footer's length and the magic, at the end of a file
_FIRST_READ = 16 * 1024
_THREADS = 8


def parquet_rows(storage: Storage, files: Collection[tuple[str, int]]) -> int:
    """Return the number of rows in all files together. ``files``: (path, bytes) of each file.

    Raises StagedFileUnusableError, ObjectNotFoundError.
    """
    return sum(int(footer.num_rows) for footer in read_footers(storage, files))


def parquet_columns(storage: Storage, path: str, size: int) -> list[tuple[str, Any]]:
    """Return (name, type in Spark's schema JSON) of each column. The type is None if Spark has not written the file.

    Raises the errors of :func:`parquet_rows`.
    """
    [footer] = read_footers(storage, [(path, size)])
    spark_schema = (footer.metadata or {}).get(_SPARK_SCHEMA)
    if spark_schema is not None:
        return [(field["name"], field["type"]) for field in json.loads(spark_schema)["fields"]]
    return [(name, None) for name in footer.schema.to_arrow_schema().names]


def read_footers(storage: Storage, files: Collection[tuple[str, int]]) -> list[Any]:
    """Return the ``pyarrow.parquet.FileMetaData`` of each file.

    Raises the errors of :func:`parquet_rows`.
    """
    return map_parallel(lambda file: _footer(storage, *file), list(files), _THREADS)


def _footer(storage: Storage, path: str, size: int) -> Any:
    from pyarrow import ArrowException, parquet

    tail = storage.read_range(path, max(0, size - _FIRST_READ), size)
    length = int.from_bytes(tail[-_LENGTH:-4], "little") + _LENGTH
    if tail[-4:] != _MAGIC or not _LENGTH < length <= size:
        raise _unreadable(storage.full_uri(path), f"it ends in {tail[-4:]!r}")
    if length > len(tail):
        tail = storage.read_range(path, size - length, size)
    try:
        return parquet.read_metadata(BytesIO(tail[-length:]))
    except (ArrowException, OSError) as error:
        raise _unreadable(storage.full_uri(path), str(error)) from error


def _unreadable(uri: str, reason: str) -> StagedFileUnusableError:
    return StagedFileUnusableError(
        "The footer of {uri} cannot be read ({reason}); nothing was published. If the files are encrypted, give "
        "the parquet.encryption options to the FileSink itself: its rows are then counted while they are written.",
        uri=uri,
        reason=reason,
    )
