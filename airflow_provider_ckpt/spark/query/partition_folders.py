"""Folders named ``column=value`` whose columns or values do not fit a source."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.errors import (
    NewPartitionColumnError,
    PartitionColumnsError,
    PartitionValueError,
)
from airflow_provider_ckpt.storage.redaction import redact_uri

_VALUE = re.compile(
    r"\[INVALID_PARTITION_VALUE\] Failed to cast value '(?P<value>.*?)' to data type \"(?P<type>.+?)\" for partition "
    r"column `(?P<column>.+?)`\."
)
_COLUMNS = re.compile(
    r"\[CONFLICTING_PARTITION_COLUMN_NAMES\].*?inconsistent partition column names:\s+(?P<folders>.+?)\s+"
    r"(?:SQLSTATE|\Z)",
    re.DOTALL,
)
_NEW_COLUMN = re.compile(r"assertion failed: Invalid batch: (?P<before>\S+) != (?P<after>\S+)")
_ID = re.compile(r"#\d+L?$")


def unfit_folders(subject: str, text: str) -> CkptError | None:
    """Return the error for a failure of Spark at the folders of a source; None for any other failure.

    Args:
        subject: the source or query that failed, as the message begins.
        text: Spark's message.
    """
    value = _VALUE.search(text)
    if value is not None:
        about = {"column": value["column"], "value": value["value"], "type": value["type"]}
        return PartitionValueError(subject=subject, **about)
    columns = _COLUMNS.search(text)
    if columns is not None:
        folders = [redact_uri(line.strip()) for line in columns["folders"].splitlines()]
        return PartitionColumnsError(subject=subject, folders=", ".join(folders))
    batch = _NEW_COLUMN.search(text)
    new = [] if batch is None else sorted(set(_columns(batch["after"])) - set(_columns(batch["before"])))
    return NewPartitionColumnError(subject=subject, columns=", ".join(new)) if new else None


def _columns(listed: str) -> list[str]:
    """Return the names of columns that Spark lists with their ids."""
    return [_ID.sub("", column) for column in listed.split(",")]
