"""Every durable file: readable JSON with a ``format``, a ``version``, and a checksum of what it holds as its last key.

A disk or a copy can change a digit and leave the JSON whole: an offset that is read so is believed. Files of releases
that wrote no checksum have none to compare, and are read as they are.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from airflow_provider_ckpt.model.json_form import shown
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError
from airflow_provider_ckpt.storage.strict_json import parse_json

PREFIX = "airflow-provider-ckpt/"
CHECKSUM = "crc32"
_SEAL = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\s*\Z')
_SEAL_FITS_IN = 64


def encode_document(what: str, version: int, **fields: Any) -> bytes:
    """``what`` is the short name of the format, for example ``root``."""
    document = {"format": PREFIX + what, "version": version, **fields}
    return sealed(json.dumps(document, allow_nan=False))


def sealed(document: str) -> bytes:
    """The text of a JSON object, with the CRC-32 (that of zlib) of all bytes before its own key as the last one."""
    start = document[:-1].encode()
    return start + f', "{CHECKSUM}": "{zlib.crc32(start):08x}"}}\n'.encode()


def decode_document(
    data: bytes, what: str, version: int, *, uri: str, most_bytes: int | None = None, foreign: bool = False
) -> dict[str, Any]:
    """``version`` is the newest one known; ``most_bytes`` and ``foreign`` are as of :func:`parse_json`. Raises
    MalformedDocumentError, NewerFormatError."""
    document = parse_json(data, uri=uri, what=what, most_bytes=most_bytes, foreign=foreign)
    if not isinstance(document, dict):
        raise MalformedDocumentError(uri=uri, what=what, reason="it is no JSON object")
    if CHECKSUM in document and not _is_as_sealed(data):
        reason = f"its {CHECKSUM} is not that of what it holds: it is not as it was written"
        raise MalformedDocumentError(uri=uri, what=what, reason=reason)
    check_format(document, what, version, uri=uri)
    return document


def _is_as_sealed(data: bytes) -> bool:
    seal = _SEAL.search(data, max(0, len(data) - _SEAL_FITS_IN))
    return seal is not None and int(seal[1], 16) == zlib.crc32(data[: seal.start()])


def check_format(document: dict[str, Any], what: str, version: int, *, uri: str) -> None:
    if document.get("format") != PREFIX + what:
        reason = f"its format is {shown(document.get('format'))}, not {PREFIX + what!r}"
        raise MalformedDocumentError(uri=uri, what=what, reason=reason)
    found = document.get("version")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise MalformedDocumentError(uri=uri, what=what, reason=f"its version is {shown(found)}")
    if found > version:
        raise NewerFormatError(uri=uri, what=what, found=found, known=version)
