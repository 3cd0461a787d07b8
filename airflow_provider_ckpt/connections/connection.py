"""An Airflow connection for processes without Airflow: its fields, and the two forms of its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_provider_ckpt.connections.errors import BadConnectionError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.redaction import as_printed, field_secrets, redact
from airflow_provider_ckpt.storage.strict_json import parse_json

_EXTRA = "__extra__"
"""The URI parameter with the extra as JSON. Airflow uses it for an extra with values that are not texts."""
_MOST_BYTES = 1 << 20
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_PORTS = 1 << 16


@dataclass(frozen=True, repr=False)
class Connection:
    """The fields of an Airflow connection. ``repr`` and ``str`` show its id and type only."""

    conn_id: str
    conn_type: str
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def secrets(self) -> tuple[str, ...]:
        """Return every secret of the connection, in each spelling that a log or error may show, longest first."""
        secrets = [self.password] if self.password else []
        return as_printed([*secrets, *field_secrets(self.extra)], [self.login])

    def redact(self, text: str) -> str:
        """Return another program's text about this connection without its secrets."""
        return redact(text, self.secrets())

    def __repr__(self) -> str:
        return f"Connection({self.conn_id!r}, {self.conn_type!r})"


def parse_connection(conn_id: str, text: str) -> Connection:
    """Read the value of ``AIRFLOW_CONN_…``: a JSON object or a URI.

    Raises BadConnectionError, which shows none of the text.
    """
    connection, problem = _read(conn_id, text.strip())
    if connection is None:
        # Raised outside the parser's handler, because a parser's error as the context would carry the text.
        raise BadConnectionError(conn_id=conn_id, problem=problem)
    return connection


def _read(conn_id: str, text: str) -> tuple[Connection | None, str]:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return None, "its text is not UTF-8"
    if not text.startswith("{"):
        return _from_uri(conn_id, text)
    fields, problem = _json(data, "its text")
    return (None, problem) if problem else _from_fields(conn_id, fields)


def _json(data: bytes, subject: str) -> tuple[Any, str]:
    """Return (value of a JSON text, "") or (None, problem). The problem shows none of the text."""
    try:
        return parse_json(data, uri="", what="", most_bytes=_MOST_BYTES, foreign=True), ""
    except MalformedDocumentError as error:
        return None, f"{subject} cannot be read: {error.data['reason']}"


def _from_fields(conn_id: str, fields: Mapping[str, Any]) -> tuple[Connection | None, str]:
    extra = fields.get("extra") or {}
    if isinstance(extra, str):
        extra, problem = _json(extra.encode(), "its extra")
        if problem:
            return None, problem
    if not isinstance(extra, dict):
        return None, "its extra is no JSON object"
    port = fields.get("port") or None
    if port is not None and not (_PORT.fullmatch(str(port)) and int(port) < _PORTS):
        return None, f"its port is no number from 1 to {_PORTS - 1}"
    texts = {name: fields.get(name) for name in ("conn_type", "host", "login", "password", "schema")}
    invalid = [name for name, value in texts.items() if value is not None and not isinstance(value, str)]
    if invalid:
        return None, f"its {invalid[0]} is no text"
    kind = texts.pop("conn_type")
    if not kind:
        return None, "it has no type (conn_type)"
    values = {name: value or None for name, value in texts.items()}
    return Connection(conn_id, _plain_type(kind), port=None if port is None else int(port), extra=extra, **values), ""


def _from_uri(conn_id: str, uri: str) -> tuple[Connection | None, str]:
    """Read a URI as Airflow does: ``type://login:password@host:port/schema?extra``. The host may include a scheme.

    Return (connection, "") or (None, problem).
    """
    kind, separator, address = uri.partition("://")
    if not kind or not separator:
        return None, "its text is neither a JSON object nor a URI with a type in front (postgres://…)"
    protocol, inner, inner_address = address.partition("://")
    has_protocol = bool(inner) and not set(protocol) & set("@:/?")
    try:
        parts = urlsplit(f"//{inner_address if has_protocol else address}")
        port = parts.port
    except ValueError:
        return None, "its URI cannot be taken apart: is the password quoted, and the port a number?"
    host = unquote(_host(parts.netloc))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    fields = {
        "conn_type": kind,
        "host": f"{protocol}://{host}" if has_protocol and host else host,
        "port": port,
        "login": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "schema": unquote(parts.path[1:]),
        "extra": query.get(_EXTRA, query),
    }
    return _from_fields(conn_id, fields)


def _host(netloc: str) -> str:
    """Return the host in its original case, unlike ``hostname``."""
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0]


def _plain_type(kind: str) -> str:
    return "postgres" if kind == "postgresql" else kind.replace("-", "_")
