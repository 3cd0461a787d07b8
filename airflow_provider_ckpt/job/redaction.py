"""Hiding what may be secret in Spark's configuration and in URIs."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"
# Wider than Spark's own spark.redaction.regex: hiding too much costs nothing here.
_SECRET = re.compile(
    r"(?i)secret|passw|passphrase|pass(?:$|[._-])|pwd|token|credential|auth|(account|access|private|api).?key|\bsas\b"
)
_SECRET_IN_VALUE = re.compile(r"(?i)(passw(or)?d|pwd|secret|token|key)\s*=|^\s*(basic|bearer)\s")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


def redact_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """``conf`` with ``***`` for every value that its key or its own text gives away as secret."""
    return {key: HIDDEN if _is_secret(key, value) else redact_uri(value) for key, value in conf.items()}


def _is_secret(key: str, value: str) -> bool:
    return _SECRET.search(key) is not None or _SECRET_IN_VALUE.search(value) is not None


def redact_uri(uri: str) -> str:
    """``s3://key:secret@bucket/x`` -> ``s3://***@bucket/x``. ABFS's ``container@account`` is no secret."""
    if uri.startswith(("abfs://", "abfss://", "wasb://", "wasbs://")):
        return uri
    return _USER_INFO.sub(HIDDEN + "@", uri)
