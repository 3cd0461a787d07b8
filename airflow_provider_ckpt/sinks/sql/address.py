"""Address and credentials of a database. They are secret: never shown, and sent to executors only in a closure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError
from airflow_provider_ckpt.connections.plain_text import is_on_this_machine
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.sql.dialect_names import Kind, kind_of, refused_dialect
from airflow_provider_ckpt.storage.redaction import as_printed, field_secrets, redact

_TEXTS = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password", "unix_socket")
_NUMBERS = ("connect_timeout", "read_timeout", "write_timeout")
_SWITCHES = ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity")
_TLS = frozenset({"ca", "capath", "cert", "key", "password", "cipher", "check_hostname", "verify_mode"})
"""The keys of ``ssl`` that PyMySQL reads. It silently ignores other keys."""
_AIRFLOW_KEYS = frozenset({"ssl", "charset", "cursor", "local_infile", "allow_local_infile", "client"})
"""Keys of a connection's extra that Airflow's own hook reads. This sink uses ``ssl`` and ignores the rest."""


@dataclass(frozen=True, repr=False)
class Address:
    """The address and credentials of a database. ``parameters``: arguments of PyMySQL; for SQLite only ``path``."""

    kind: Kind
    parameters: Mapping[str, Any] = field(hash=False)

    @classmethod
    def of_url(cls, url: str) -> Address | None:
        """Return the address in a URL; None if it cannot be parsed, instead of an error that could show a secret.

        Raises InvalidSinkError.
        """
        kind = kind_of(url.partition("://")[0])
        if kind is None:
            raise refused_dialect("url", url.partition("://")[0])
        parsed = _parsed(url)
        if parsed is None:
            return None
        if kind == "sqlite":
            return cls._of_file("url", parsed.database, parsed.query)
        values = {
            "host": parsed.host,
            "port": parsed.port,
            "user": parsed.username,
            "password": parsed.password,
            "database": parsed.database,
        }
        return cls("mysql", {**_without_empty("url", values), **_settings("url", parsed.query)})

    @classmethod
    def of_connection(cls, connection: Connection) -> Address:
        """Return the address in an Airflow connection.

        Raises InvalidSinkError, BadConnectionError.
        """
        source = f"connection {connection.conn_id!r}"
        kind = kind_of(connection.conn_type)
        if kind is None:
            raise refused_dialect(source, connection.conn_type)
        if connection.extra.get("iam"):
            problem = "its extra asks for an IAM token (iam), which expires while a job runs; give it a password"
            raise BadConnectionError(conn_id=connection.conn_id, problem=problem)
        if kind == "sqlite":
            return cls._of_file(source, connection.host or connection.schema, {})
        values = {
            "host": connection.host,
            "port": connection.port,
            "user": connection.login,
            "password": connection.password,
            "database": connection.schema,
            "ssl": _tls(source, connection.extra.get("ssl")),
        }
        extra = {name: value for name, value in connection.extra.items() if name not in _AIRFLOW_KEYS}
        return cls("mysql", {**_without_empty(source, values), **_settings(source, extra)})

    @classmethod
    def _of_file(cls, source: str, path: str | None, settings: Iterable[str]) -> Address:
        for name in settings:
            raise _refused(source, name, "is none for a file of SQLite")
        if not path or path == ":memory:" or path.startswith("file:"):
            problem = "names no file: a database in memory exists in one process only, and is lost with it"
            raise _refused(source, "path", problem)
        if not Path(path).is_absolute():
            problem = "is relative, and each process would search its own folder; write sqlite:////folder/file.db"
            raise _refused(source, "path", problem)
        return cls("sqlite", {"path": path})

    @property
    def database(self) -> str:
        """The database for tables whose names have no schema; empty if the address names no database."""
        return "main" if self.kind == "sqlite" else self.parameters.get("database", "")

    @property
    def may_lack_tls(self) -> bool:
        """True if PyMySQL may connect over a network without TLS, and the user has not chosen that by a setting."""
        is_chosen = any(name.startswith("ssl") or name == "unix_socket" for name in self.parameters)
        return self.kind == "mysql" and not is_chosen and not is_on_this_machine(self.parameters.get("host"))

    def with_statement_timeout(self, seconds: float) -> Address:
        return self if self.kind == "sqlite" else replace(self, parameters={**self.parameters, "read_timeout": seconds})

    def redact(self, text: str) -> str:
        """Return the text of a database error without secrets, on one line."""
        secrets = [str(self.parameters[name]) for name in ("password", "ssl_key_password") if name in self.parameters]
        secrets += field_secrets(self.parameters["ssl"]) if isinstance(self.parameters.get("ssl"), Mapping) else []
        return redact(" ".join(text.split()), as_printed(secrets, [self.parameters.get("user")]))

    def __repr__(self) -> str:
        return "Address(***)"


def _parsed(url: str) -> URL | None:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        return None


def _without_empty(source: str, values: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("host", "user", "password", "database"):
        if any("\ud800" <= char <= "\udfff" for char in values[name] or ""):
            problem = "has half of a character (a surrogate), which cannot be sent to a server"
            raise _refused(source, name, problem)
    return {name: value for name, value in values.items() if value not in (None, "")}


def _tls(source: str, value: Any) -> dict[str, Any] | None:
    """Return the ``ssl`` settings of a connection's extra; None if it has none. In a connection URI they are JSON text.

    Raises InvalidSinkError.
    """
    settings = _read_json(value) if isinstance(value, str) and value else value or None
    if settings is None or (isinstance(settings, dict) and set(settings) <= _TLS):
        return settings
    problem = f"is no JSON object of {', '.join(sorted(_TLS))}"
    raise _refused(source, "ssl", problem)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _settings(source: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return PyMySQL's settings. An error names an unknown setting, never its value."""
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if name == "charset" and value == "utf8mb4":
            continue
        if name in _TEXTS:
            settings[name] = str(value)
        elif name in _NUMBERS and str(value).isdigit():
            settings[name] = int(str(value))
        elif name in _SWITCHES and str(value).lower() in ("true", "false", "1", "0"):
            settings[name] = str(value).lower() in ("true", "1")
        else:
            known_settings = ", ".join((*_TEXTS, *_NUMBERS, *_SWITCHES))
            problem = f"is unknown here, or not of its kind; it takes {known_settings} (charset is utf8mb4)"
            raise _refused(source, name, problem)
    if settings.get("ssl_verify_identity") and "ssl_ca" not in settings:
        problem = "needs ssl_ca, without which the driver compares no host"
        raise _refused(source, "ssl_verify_identity", problem)
    if "ssl_ca" in settings:
        # without this mode PyMySQL would ask for TLS and accept any certificate
        settings.setdefault("ssl_verify_cert", True)
    return settings


def _refused(source: str, setting: str, problem: str) -> InvalidSinkError:
    return InvalidSinkError(
        "{where} cannot be used by a SqlSink: its setting {setting!r} {problem}",
        where=source,
        setting=setting,
        problem=problem,
    )
