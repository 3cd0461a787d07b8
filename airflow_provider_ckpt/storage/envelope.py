"""Envelope of durable files: a JSON object with ``format``, ``version``, and a checksum of its content as the last key.

The checksum detects changes after which the JSON is still valid. A document without a checksum is accepted.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.json_form import shown
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, NewerFormatError, ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.strict_json import parse_json

PREFIX = "airflow-provider-ckpt/"
CHECKSUM = "crc32"
_SEAL = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\s*\Z')
_SEAL_FITS_IN = 64


def encode_document(what: str, version: int, **fields: Any) -> bytes:
    """Return a document as bytes. ``what``: short name of its format, such as ``root``."""
    document = {"format": PREFIX + what, "version": version, **fields}
    return sealed(json.dumps(document, allow_nan=False))


def sealed(document: str) -> bytes:
    """Return a JSON object as bytes. Its last key is the CRC-32 (as in zlib) of all bytes before that key."""
    start = document[:-1].encode()
    return start + f', "{CHECKSUM}": "{zlib.crc32(start):08x}"}}\n'.encode()


def decode_document(
    data: bytes, what: str, version: int, *, uri: str, most_bytes: int | None = None, foreign: bool = False
) -> dict[str, Any]:
    """Return the JSON object of a document.

    Args:
        what: short name of the expected format.
        version: newest version of the format that this release can read.
        most_bytes: see :func:`parse_json`.
        foreign: see :func:`parse_json`.

    Raises MalformedDocumentError and NewerFormatError.
    """
    document = parse_json(data, uri=uri, what=what, most_bytes=most_bytes, foreign=foreign)
    if not isinstance(document, dict):
        raise MalformedDocumentError(uri=uri, what=what, reason="it is no JSON object")
    if CHECKSUM in document and not _is_as_sealed(data):
        reason = f"its {CHECKSUM} does not match its content: it was changed after it was written"
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
    document_version = document.get("version")
    if not isinstance(document_version, int) or isinstance(document_version, bool) or document_version < 1:
        raise MalformedDocumentError(uri=uri, what=what, reason=f"its version is {shown(document_version)}")
    if document_version > version:
        raise NewerFormatError(uri=uri, what=what, found=document_version, known=version)


@contextmanager
def lost_as(error: type[CkptError], uri: str) -> Iterator[None]:
    """Convert errors of reading the document ``uri`` in this block into ``error``, with ``uri`` and ``problem``.

    The document was written before, so it is lost if it is missing or unreadable. The error of a failed storage, or of
    a document of a later release, is not converted.
    """
    try:
        with refused_as(lambda problem: error(uri=uri, problem=f"cannot be read: {problem}")):
            yield
    except ObjectNotFoundError as cause:
        raise error(uri=uri, problem="is gone") from cause
