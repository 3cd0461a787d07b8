"""S3's answers to failed requests, and the causes of refusals: missing rights, wrong or expired credentials."""

from __future__ import annotations

from typing import Any

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
"""S3's codes for expired credentials."""


def code_of(error: BaseException) -> str | None:
    """Return S3's code for an error of s3fs; None if S3 did not answer."""
    response = response_of(error)
    return None if response is None else str((response.get("Error") or {}).get("Code"))


def response_of(error: BaseException) -> dict[str, Any] | None:
    """Return S3's answer to the failed request; None if S3 did not answer. s3fs keeps it in an error's causes."""
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
"""Operation of a storage -> the right of S3 that it needs."""
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
    """Return the right or credentials that the job needs for an operation that S3 refused."""
    return CREDENTIALS if code_of(error) in _CREDENTIAL_ERRORS else RIGHTS.get(verb, "")


def has_expired(error: BaseException) -> bool:
    return code_of(error) in EXPIRED


def is_denied(error: BaseException) -> bool:
    return code_of(error) in ("403", "AccessDenied")
