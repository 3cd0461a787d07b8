"""Where a folder lies, in a form in which two can be compared. No file system is opened."""

from __future__ import annotations

import os
import re

from airflow_provider_ckpt.storage.errors import InvalidStorageUriError
from airflow_provider_ckpt.storage.opening import canonical_uri

_LOCAL = "file://"
_SPELLINGS = ((re.compile(r"s3[an]?://([^/]*@)?"), "s3:/"), (re.compile(r"abfss?://"), "abfs:/"))
"""One store by whatever scheme, and with whatever credentials."""


def segments(uri: str) -> list[str]:
    """From the store down; of a local path without ``..`` and with its links followed, as they are here and now. A
    pattern may be given, too."""
    try:
        plain = canonical_uri(uri)
    except InvalidStorageUriError:  # a pattern may hold what no folder does
        plain = uri
    if plain.startswith(_LOCAL):
        plain = os.path.realpath(plain.removeprefix(_LOCAL))
    for spelling, store in _SPELLINGS:
        if match := spelling.match(plain):
            plain = f"{store}{plain[match.end() :]}"
    return [part for part in plain.split("/") if part]


def is_hidden(name: str) -> bool:
    """Spark, Hive and most other readers pass over a folder of that name, but for a partition (``_day=1``)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
