"""Rules for secrets in names, options, URIs and texts. No other module decides what is secret."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# Wider than Spark's own spark.redaction.regex: hiding too much costs nothing here.
_SECRET_NAME = re.compile(
    r"(?i)secret|passw|passphrase|passcode|pass(?:$|[._-])|pwd|token|credential|auth|cookie|bearer|\botp\b|\bsas\b"
    r"|(account|access|private|api|signing|encryption|master|fernet|hmac|shared|client|storage).?key|keyfile_dict"
)
_SECRET_IN_VALUE = re.compile(r"(?i)(passw(or)?d|pwd|secret|token|key)\s*=|^\s*(basic|bearer)\s")
_SECRET_IN_QUERY = re.compile(r"(?i)(?:^|[._-])(?:access)?(?:key|keyid|sig|signature|code|user|username)$")
"""Pattern of names that are secret only for parameters of a URI: signatures and keys."""
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]{0,40}"
_URI = re.compile(rf"({_SCHEME}:/{{1,2}})(\S+?)(?=[,;]{_SCHEME}://|\s|$)")
"""Pattern of a URI. A single slash after the scheme is accepted, because such a mistake must not show secrets.

Schemes have a maximal length, because a line of a log may be one word of a megabyte.
"""
_NO_URI = r"\s\"'`<>{}|\\^"
_URI_IN_TEXT = re.compile(rf"({_SCHEME}://)([^{_NO_URI}]+?)(?=[,;]{_SCHEME}://|[{_NO_URI}]|$)")
_PASSWORD = re.compile("^[^/?#@]*:[^/?#]*@")
_PARAMETER = re.compile(r"(?<=[?&;#])([^=&;#?\s]*)=([^&;#\s]*)")
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")
"""Schemes in which ``container@account`` is a place and not a user."""

_HARMLESS = frozenset(
    {
        "ACL",
        "ServerSideEncryption",
        "StorageClass",
        "account_name",
        "addressing_style",
        "anon",
        "asynchronous",
        "default_cache_type",
        "endpoint_url",
        "profile",
        "project",
        "region",
        "region_name",
        "signature_version",
        "use_ssl",
    }
)
"""Options whose values are not secret, except credentials in a URI. The text of any other option may be secret."""
_SHORTEST_NUMBER = 6
"""Minimum number of digits of a number that may be secret. Ports and timeouts are shorter, and stay readable."""
_ABOUT_A_SECRET = re.compile(
    r"(?i)(?:^|[._-]|(?-i:(?<=[a-z])(?=[A-Z])))(?:urls?|uri|endpoint|location|path|file|dir|type|method|mechanisms?"
    r"|mode|class|(?<!secret[._-])id|name|timeout|lifetime|interval|provider|format|enabled?|protocol|alias|algorithm|version"
    r"|authentication)$"
)
"""Pattern of ends of field names that describe where or how a secret is found: ``ssl.keystore.location``."""
_PLAIN_WORDS = frozenset({"true", "false", "none", "null", "default", "anon", "cloud", "browser", "google_default"})
"""Values that are not secret even if the name of the field is a secret's name, such as ``token: anon``."""
_ASSIGNED = re.compile(
    r"(?i)(?:passw(?:or)?d|pwd|secret|token|key)[\w.-]*\s*=\s*(?:\"([^\"]+)\"|'([^']+)'|([^\s;,\"']+))"
)
_CREDENTIALS = re.compile(r"(?i)^\s*(?:basic|bearer)\s+(\S+)")
_KINDS_OF_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|^eyJ[\w-]+\.[\w-]+\.[\w-]*$|^(?:AKIA|ASIA)[A-Z0-9]{12,}$"
    r"|^(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+/=_-]{32,}$"
)
"""Pattern of texts that are secret: private keys, JSON web tokens, access keys of AWS, random texts."""
_PERCENT = re.compile("%[0-9A-F]{2}")


def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def redact_uri(uri: str) -> str:
    """Return a text with hidden secrets: ``s3://key:secret@bucket/x?token=y`` -> ``s3://***@bucket/x?token=***``."""
    return _URI.sub(lambda match: match[1] + _redact_address(match[1], match[2]), uri)


def _redact_address(scheme: str, rest: str) -> str:
    user = user_info(scheme, rest)
    if user is not None:
        rest = HIDDEN + rest[len(user) :]
    return _hide_parameters(rest)


def _hide_parameters(rest: str) -> str:
    return _PARAMETER.sub(lambda match: f"{match[1]}={HIDDEN if _is_secret_parameter(match[1]) else match[2]}", rest)


def user_info(scheme: str, rest: str) -> str | None:
    """Return the part of a URI before the ``@``; None if there is none.

    A secret key may have unescaped slashes. So after a colon that begins no port, all text up to the last ``@`` is
    secret.
    """
    if scheme.lower() == "file:/":
        return None  # the URI is only a path
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
    """Yield the texts that :func:`redact_uri` hides, as written and decoded. User names are included."""
    for match in _URI.finditer(uri):
        user = user_info(match[1], match[2])
        parts = [] if user is None else [part for part in user.split(":", 1) if part]
        parts += [value for name, value in _PARAMETER.findall(match[2]) if value and _is_secret_parameter(name)]
        for part in parts:
            yield part
            if unquote(part) != part:
                yield unquote(part)


def redact_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings with ``***`` for each value that is secret by its name or its text."""
    return {name: HIDDEN if _is_secret_setting(name, value) else redact_uri(value) for name, value in conf.items()}


def conf_secrets(conf: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in Spark's settings or in an environment, in the forms in which programs print them.

    A whole value is secret only if the setting has the name of a secret. Most values are paths and class names, which
    messages need.
    """
    return as_printed(text for name, value in conf.items() for text in _setting_secrets(name, str(value)))


def _setting_secrets(name: str, value: str) -> Iterator[str]:
    if _is_secret_field(name) and value.lower() not in _PLAIN_WORDS:
        yield value
    yield from (part for groups in _ASSIGNED.findall(value) for part in groups if part)
    yield from _CREDENTIALS.findall(value)
    yield from credentials_in(value)


def _is_secret_field(name: str) -> bool:
    return is_secret_name(name) and not _ABOUT_A_SECRET.search(name)


def _is_secret_setting(name: str, value: str) -> bool:
    return is_secret_name(name) or _SECRET_IN_VALUE.search(value) is not None


def redact_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage options without secrets. Secret values are replaced, but their names remain."""
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
    """Yield all texts in storage options that may be secret."""
    for name, value in options.items():
        if name in _HARMLESS and isinstance(value, str):
            yield from credentials_in(value)
        else:
            yield from _texts(value)


def secret_names(options: Mapping[str, Any]) -> set[str]:
    """Return the names of storage options whose values may be secret."""
    return {name for name, value in options.items() if any(secrets_in({name: value}))}


def field_secrets(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secrets in the extra of an Airflow connection, or in a client's settings.

    The name of a field (``sasl.password``) or the kind of a text (a private key, a URI with a password) makes it
    secret. Other fields are not secret: a ``group.id`` may be a word that is in every message.
    """
    for name, value in fields.items():
        if _is_secret_field(str(name)):
            yield from (text for text in _texts(value) if text.lower() not in _PLAIN_WORDS)
        yield from _secrets_by_kind(value)


def _secrets_by_kind(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from field_secrets(value)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _secrets_by_kind(part)
    elif isinstance(value, str):
        fields = _json_object(value)
        yield from (_secret_parts(value) if fields is None else field_secrets(fields))


def _json_object(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object in a text; None if the text has another form."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _secret_parts(text: str) -> Iterator[str]:
    assigned = [part for groups in _ASSIGNED.findall(text) for part in groups if part]
    if assigned or _KINDS_OF_SECRETS.search(text):
        yield text
    yield from assigned
    yield from _CREDENTIALS.findall(text)
    yield from credentials_in(text)


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


def as_printed(secrets: Iterable[str], users: Iterable[str | None] = ()) -> tuple[str, ...]:
    """Return the secrets in all forms in which programs print them, the longest first, because one may contain another.

    The forms are plain text, JSON, repr, and the escapes of URIs and of HTML forms. For each of ``users``, the Base64
    of ``user:password`` is added.
    """
    forms: set[str] = set()
    names = [user for user in users if user]
    for text in secrets:
        forms |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        forms |= _in_uris(text)
        forms |= {login for user in names for login in _logins(user, text)}
    return tuple(sorted(forms - {""}, key=lambda text: (-len(text), text)))


def _in_uris(text: str) -> set[str]:
    plain = text.encode("utf-8", "surrogatepass")
    escaped = {quote(plain), quote(plain, safe=""), quote_plus(plain)}
    return escaped | {_PERCENT.sub(lambda match: match[0].lower(), form) for form in escaped}


def _logins(user: str, password: str) -> set[str]:
    """Return the Base64 of ``user:password`` in both alphabets, without padding."""
    plain = f"{user}:{password}".encode("utf-8", "surrogatepass")
    return {encode(plain).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)}


SHORTEST = 4
"""Minimum length of a secret that is hidden in texts. Shorter texts are parts of many words."""


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` without the secrets, and without credentials in URIs."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return redact_text(text)


def redact_text(text: str) -> str:
    """Return a text of another program without passwords and signatures in its URIs.

    The text may be JSON, so a quotation mark ends a URI. A user without a password is shown, because
    ``spark://endpoint@host`` has no user.
    """
    return _URI_IN_TEXT.sub(lambda match: match[1] + _without_password(match[2]), text) if ":/" in text else text


def _without_password(rest: str) -> str:
    return _hide_parameters(_PASSWORD.sub(f"{HIDDEN}@", rest, count=1))


_GIVEN: set[str] | None = None


@contextmanager
def hiding_given(secrets: Iterable[str]) -> Iterator[None]:
    """Make :func:`redact_given` hide these secrets in this block, and the secrets of :func:`note_given`, too.

    Drivers use this function, because their texts come from Spark, libraries and the user's code.
    """
    global _GIVEN
    before, _GIVEN = _GIVEN, {*(_GIVEN or ()), *secrets}
    try:
        yield
    finally:
        _GIVEN = before


def note_given(secrets: Iterable[str]) -> None:
    """Add secrets for :func:`redact_given` to hide. Outside of a :func:`hiding_given` block, do nothing."""
    if _GIVEN is not None:
        _GIVEN.update(secrets)


def given_secrets() -> frozenset[str]:
    return frozenset(_GIVEN or ())


def redact_given(text: str) -> str:
    return redact(text, given_secrets())
