"""What is secret in names, options, URIs and texts, and hiding it. Nothing else in this package decides that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"

# Wider than Spark's own spark.redaction.regex: hiding too much costs nothing here.
_SECRET_NAME = re.compile(
    r"(?i)secret|passw|passphrase|pass(?:$|[._-])|pwd|token|credential|auth|(account|access|private|api).?key|\bsas\b"
)
_SECRET_IN_VALUE = re.compile(r"(?i)(passw(or)?d|pwd|secret|token|key)\s*=|^\s*(basic|bearer)\s")
_SECRET_IN_QUERY = re.compile(r"(?i)(?:^|[._-])(?:access)?(?:key|keyid|sig|signature|code|user|username)$")
"""Besides secret names: a shared access signature, a signed URL, a key for a function."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,2})(\S+?)(?=[,;][A-Za-z][A-Za-z0-9+.-]*://|\s|$)")
"""One slash behind a scheme is a mistake, and what follows as secret as ever."""
_PARAMETER = re.compile(r"(?<=[?&;#])([^=&;#?\s]*)=([^&;#\s]*)")
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")
"""``container@account`` names a place there."""

_HARMLESS = frozenset(
    {
        "account_name",
        "addressing_style",
        "anon",
        "asynchronous",
        "endpoint_url",
        "project",
        "region",
        "region_name",
        "signature_version",
        "use_ssl",
    }
)
"""Options whose values may be read by everybody, but for credentials in a URI. Any other text may be secret."""
_SHORTEST_NUMBER = 6
"""Digits: ports and timeouts stay readable."""


def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def redact_uri(uri: str) -> str:
    """``s3://key:secret@bucket/x?token=y`` -> ``s3://***@bucket/x?token=***``; also for a text with URIs in it."""
    return _URI.sub(lambda found: found[1] + _redacted(found[1], found[2]), uri)


def _redacted(scheme: str, rest: str) -> str:
    user = user_info(scheme, rest)
    if user is not None:
        rest = HIDDEN + rest[len(user) :]
    return _PARAMETER.sub(lambda found: f"{found[1]}={HIDDEN if _is_secret_parameter(found[1]) else found[2]}", rest)


def user_info(scheme: str, rest: str) -> str | None:
    """What stands before the ``@``. A secret key has slashes in it, which somebody may not have escaped: behind a colon
    that is no port's all is taken for the secret, up to the last ``@``."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, colon, tail = authority.partition(":")
    if colon and "@" not in authority and not tail.isdigit() and "@" in rest:
        return rest.rpartition("@")[0]
    if "@" not in authority or (scheme.lower() in _CONTAINERS and not colon):
        return None
    return authority.rpartition("@")[0]


def _is_secret_parameter(name: str) -> bool:
    plain = unquote(name)
    return is_secret_name(plain) or _SECRET_IN_QUERY.search(plain) is not None


def credentials_in(uri: str) -> Iterator[str]:
    """The texts that :func:`redact_uri` hides, as they are written there and decoded; a user's name is one."""
    for found in _URI.finditer(uri):
        user = user_info(found[1], found[2])
        parts = [] if user is None else [part for part in user.split(":", 1) if part]
        parts += [value for name, value in _PARAMETER.findall(found[2]) if value and _is_secret_parameter(name)]
        for part in parts:
            yield part
            if unquote(part) != part:
                yield unquote(part)


def redact_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings with ``***`` for every value that its name or its own text gives away as secret."""
    return {name: HIDDEN if _is_secret_setting(name, value) else redact_uri(value) for name, value in conf.items()}


def _is_secret_setting(name: str, value: str) -> bool:
    return is_secret_name(name) or _SECRET_IN_VALUE.search(value) is not None


def redact_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Storage options for people: the names, and the values that may be read by everybody."""
    return {name: _shown(name, value) for name, value in options.items()}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact_options(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not is_secret_name(name) and not any(_texts(value)):
        return value
    return redact_uri(value) if name in _HARMLESS and isinstance(value, str) else HIDDEN


def secrets_in(options: Mapping[str, Any]) -> Iterator[str]:
    """Every text in storage options that may be a secret."""
    for name, value in options.items():
        if name in _HARMLESS and isinstance(value, str):
            yield from credentials_in(value)
        else:
            yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if value else []
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from [str(value)] if len(str(value)) >= _SHORTEST_NUMBER else []
    elif isinstance(value, Mapping):
        yield from secrets_in(value)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _texts(part)


def as_printed(secrets: Iterable[str]) -> tuple[str, ...]:
    """The secrets in the forms in which somebody prints them: as they are, in JSON, in a repr, in a URI. Longest first,
    so that none is left that has another one in it."""
    found: set[str] = set()
    for text in secrets:
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        found |= {quote(text, errors="surrogatepass"), quote(text, safe="", errors="surrogatepass")}
    return tuple(sorted(found - {""}, key=lambda text: (-len(text), text)))


SHORTEST = 4
"""Characters: shorter ones are in every other word."""


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the secrets, wherever they stand in it."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text
