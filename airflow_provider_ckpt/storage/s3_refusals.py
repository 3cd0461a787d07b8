"""S3's answers to failed requests, and the causes of refusals: missing rights, and wrong or expired credentials."""

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
    cause: BaseException | None = error
    while cause is not None:
        response: Any = getattr(cause, "response", None)
        if isinstance(response, dict):
            return response
        cause = cause.__cause__
    return None


RIGHTS = {
    "create": "s3:PutObject",
    "replace": "s3:PutObject",
    "read": "s3:GetObject",
    "look for": "s3:GetObject",
    "copy": "s3:GetObject and s3:PutObject",
    "list": "s3:ListBucket on the bucket",
    "delete": "s3:DeleteObject",
}
"""Operation of a storage -> the right that it needs."""
LISTING = (
    "s3:GetObject, and s3:ListBucket on the bucket: without the latter S3 refuses to read an object that does not exist"
)
CREDENTIALS = "valid credentials"
_CREDENTIAL_ERRORS = frozenset(
    {
        "AccountProblem",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidToken",
        "NotSignedUp",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)


def right_for(verb: str, error: BaseException) -> str:
    """Return the right, or the credentials, that the job needs for an operation that S3 refused."""
    return CREDENTIALS if code_of(error) in _CREDENTIAL_ERRORS else RIGHTS.get(verb, "")


def has_expired(error: BaseException) -> bool:
    return code_of(error) in EXPIRED


def is_denied(error: BaseException) -> bool:
    return code_of(error) in ("403", "AccessDenied")
