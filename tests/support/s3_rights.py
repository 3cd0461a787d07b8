"""Rights of a user of S3, as a local server without rights does not have them."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlsplit

_OF_VERB = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject", "POST": "PutObject"}
_KEY = re.compile(rb"<Key>([^<]*)</Key>")


class Rights:
    """Answers that S3 gives to a user who lacks rights, or whose token has expired.

    ``expired``: the token is. ``refused``: how many requests were refused.
    """

    def __init__(self) -> None:
        self._denied: set[tuple[str, str]] = set()
        self.expired = False
        self.refused = 0

    def deny(self, right: str, prefix: str = "") -> None:
        """Take a right (``PutObject``) from the keys with a prefix, in all buckets."""
        self._denied.add((right, prefix))

    def allow_all(self) -> None:
        self._denied.clear()
        self.expired = False

    def refusal(self, line: str, body: bytes) -> tuple[int, str] | None:
        """Return the status and code, or body, of a refusal; None if the request is allowed."""
        right, key = _parsed(line)
        keys = [unquote(match.decode()) for match in _KEY.findall(body)] if right == "DeleteObjects" else [key]
        denied = [key for key in keys if self._is_denied("DeleteObject" if right == "DeleteObjects" else right, key)]
        if not self.expired and not denied:
            return None
        self.refused += 1
        if self.expired:
            return 400, "ExpiredToken"
        if right == "DeleteObjects":  # the request as a whole succeeds
            errors = (f"<Error><Key>{key}</Key><Code>AccessDenied</Code></Error>" for key in keys)
            return 200, f"<DeleteResult>{''.join(errors)}</DeleteResult>"
        return 403, "AccessDenied"

    def refusal_of_absent(self, line: str, status: int) -> tuple[int, str] | None:
        """Return S3's answer for an absent object to a user who may not list."""
        right, key = _parsed(line)
        if status == 404 and right == "GetObject" and self._is_denied("ListBucket", key):
            self.refused += 1
            return 403, "AccessDenied"
        return None

    def _is_denied(self, right: str, key: str) -> bool:
        return any(right == denied and key.startswith(prefix) for denied, prefix in self._denied)


def _parsed(line: str) -> tuple[str, str]:
    """Return the right that a request needs and its key, of a listing the prefix."""
    verb, _, rest = line.partition(" ")
    parts = urlsplit(rest)
    key = unquote(parts.path.lstrip("/").partition("/")[2])
    query = parse_qs(parts.query, keep_blank_values=True)
    if verb in ("GET", "HEAD") and not key:
        return "ListBucket", query.get("prefix", [""])[0]
    if verb == "POST" and "delete" in query:
        return "DeleteObjects", ""
    return _OF_VERB[verb], key
