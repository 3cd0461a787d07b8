"""Reading of JSON that Spark wrote, with the limits of the package's own files."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.sparkfiles.errors import DamagedOffsetError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.strict_json import parse_json

_SHOWN = 80
"""Maximum number of characters of an offset that an error shows."""


def parsed(text: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for a text that is no JSON, or is beyond a limit.
    """
    try:
        return parse_json(text if isinstance(text, bytes) else text.encode(), uri="", what="")
    except MalformedDocumentError as error:
        raise ValueError(error.data["reason"]) from None


def offset_object(offset: str | None) -> dict[str, Any] | None:
    """Return the JSON object of a source's offset; None if ``offset`` is None or does not begin as a JSON object.

    Raises DamagedOffsetError for damaged JSON.
    """
    if offset is None or not offset.startswith("{"):
        return None
    try:
        body: dict[str, Any] = parsed(offset)
    except ValueError as error:
        raise DamagedOffsetError(offset=offset[:_SHOWN], problem=str(error)) from None
    return body
