"""Every durable file: readable JSON with a ``format`` and a ``version``."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError

PREFIX = "airflow-provider-ckpt/"


def encode_document(what: str, version: int, **fields: Any) -> bytes:
    """``what`` is the short name of the format, for example ``root``."""
    document = {"format": PREFIX + what, "version": version, **fields}
    return (json.dumps(document, allow_nan=False) + "\n").encode()


def decode_document(data: bytes, what: str, version: int, *, uri: str) -> dict[str, Any]:
    """``version`` is the newest one known. Raises MalformedDocumentError, NewerFormatError."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise MalformedDocumentError(uri=uri, what=what, reason=f"no JSON ({error})") from error
    if not isinstance(document, dict):
        raise MalformedDocumentError(uri=uri, what=what, reason="it is no JSON object")
    check_format(document, what, version, uri=uri)
    return document


def check_format(document: dict[str, Any], what: str, version: int, *, uri: str) -> None:
    if document.get("format") != PREFIX + what:
        reason = f"its format is {document.get('format')!r}, not {PREFIX + what!r}"
        raise MalformedDocumentError(uri=uri, what=what, reason=reason)
    found = document.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise MalformedDocumentError(uri=uri, what=what, reason=f"its version is {found!r}")
    if found > version:
        raise NewerFormatError(uri=uri, what=what, found=found, known=version)
