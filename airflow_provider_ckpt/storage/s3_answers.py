"""S3's answers to failed requests."""

from __future__ import annotations

from typing import Any

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
"""Codes for credentials that have expired."""


def code_of(error: BaseException) -> str | None:
    """Return S3's code for an error of s3fs, or None if there was no answer."""
    response = response_of(error)
    return None if response is None else str((response.get("Error") or {}).get("Code"))


def response_of(error: BaseException) -> dict[str, Any] | None:
    """Return the answer to the request. s3fs keeps botocore's error with the answer as the cause."""
    seen: BaseException | None = error
    while seen is not None:
        response: Any = getattr(seen, "response", None)
        if isinstance(response, dict):
            return response
        seen = seen.__cause__
    return None
