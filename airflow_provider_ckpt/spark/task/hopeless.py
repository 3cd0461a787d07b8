"""Failures of Spark that every try would end in, until somebody mends what they name."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.partition_folders import unfit_folders
from airflow_provider_ckpt.spark.task.errors import FileColumnTypeError, KafkaRowsGoneError, KafkaStartUnfitError
from airflow_provider_ckpt.storage.redaction import redact_uri

_COLUMN_TYPE = re.compile(
    r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] Encountered error while reading file (?P<file>.+?)\.\s+"
    r"Data type mismatches when reading Parquet column \[?(?P<column>.+?)\]?\. "
    r"Expected Spark type (?P<expected>.+?), actual Parquet type (?P<actual>.+?)\.(?:\s|$)"
)
_ROWS_GONE = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more;.*?Reason:\s*(?P<reason>.+?)"
    r"(?=\s+with consumer group|\s+=== Streaming Query ===|\.?\s*SQLSTATE|\n\s*at |\n\s*\n|\Z)",
    re.DOTALL,
)
_START_UNFIT = re.compile(
    r"If (?P<key>startingOffsets) contains specific offsets, you must specify all TopicPartitions"
    # of offsets the same is said in a batch, whose range is ours
    r"|Partitions specified for Kafka (?P<by_time>timestamp based) start offsets don't match what are assigned"
)


def hopeless(vertex: str, error: BaseException) -> CkptError | None:
    """``error``: as it came out of Spark. None for everything that may pass: an I/O error, say, or one unknown here."""
    gone = _ROWS_GONE.search(str(error))
    if gone is not None:
        reason = " ".join(gone["reason"].split()).rstrip(".")
        return KafkaRowsGoneError(vertex=vertex, reason=f"{reason}.")
    unfit = _START_UNFIT.search(str(error))
    if unfit is not None:
        key = "startingOffsetsByTimestamp" if unfit["by_time"] else "startingOffsets"
        return KafkaStartUnfitError(vertex=vertex, key=key)
    found = _COLUMN_TYPE.search(str(error))
    if found is None:
        return unfit_folders(f"the query of vertex {vertex!r}", str(error))
    return FileColumnTypeError(
        vertex=vertex,
        file=redact_uri(found["file"]),
        column=found["column"],
        expected=found["expected"],
        actual=found["actual"],
    )
