"""Where a job's storage is and how to reach it, read off an Airflow connection of type ``ckpt``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from airflow_provider_ckpt.hooks.errors import InvalidCkptConnectionError, NoCheckpointRootError

S3 = ("s3", "s3a")
_HARMLESS = frozenset({"anon", "asynchronous", "endpoint_url", "project", "region", "region_name", "use_ssl"})
"""Options whose values may stay readable in logs, but for a user and a password in a URL; every other text in the
options is masked, and every number long enough to be a secret."""
_SHORTEST_NUMBER = 6
"""Digits: ports and timeouts stay readable."""


class ConnectionFields(Protocol):
    """What is used of an Airflow ``Connection``."""

    @property
    def host(self) -> str | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def login(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...


@dataclass(frozen=True)
class StorageSettings:
    """A root URI without secrets, and fsspec's options, which may hold some and so have no repr."""

    root: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def secrets(self) -> list[str]:
        """Every text in the options that must not be seen in a log, in the forms it may be printed in."""
        found: set[str] = set()
        for text in _texts(self.options):
            found |= {text, json.dumps(text)[1:-1]}
        return sorted(found, key=lambda text: (-len(text), text))


def settings(
    conn_id: str | None,
    connection: ConnectionFields | None,
    extra: Mapping[str, Any],
    root: str | None = None,
) -> StorageSettings:
    """``root`` goes before the connection's; ``extra`` is the connection's, decoded.

    The root is the connection's host, or ``root`` in its extra. A connection written as a URI may have the
    path in the schema (``ckpt://s3://bucket/prefix``). Raises NoCheckpointRootError and
    InvalidCkptConnectionError.
    """
    found = root or (_connection_root(connection, extra) if connection else None)
    if not found:
        raise NoCheckpointRootError(conn_id=conn_id)
    parts = urlsplit(found)
    if parts.password or (parts.username and parts.scheme in S3):
        raise InvalidCkptConnectionError(
            conn_id=conn_id,
            problem="the root URI holds a user or a password; put them into the connection's login and password",
        )
    if not parts.scheme and not found.startswith("/"):
        raise InvalidCkptConnectionError(
            conn_id=conn_id, problem=f"the root {found!r} is a relative path, which differs between workers"
        )
    options = dict(_storage_options(conn_id, extra))
    if endpoint := extra.get("endpoint_url"):
        options.setdefault("endpoint_url", endpoint)
    if connection and (connection.login or connection.password):
        if parts.scheme not in S3:
            raise InvalidCkptConnectionError(
                conn_id=conn_id,
                problem="login and password are used for s3:// only; put credentials into storage_options",
            )
        options.setdefault("key", connection.login)
        options.setdefault("secret", connection.password)
    return StorageSettings(found, options)


def _connection_root(connection: ConnectionFields, extra: Mapping[str, Any]) -> str | None:
    root = connection.host or ""
    if connection.schema:
        root = f"{root.rstrip('/')}/{connection.schema}"
    return root or extra.get("root")


def _storage_options(conn_id: str | None, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    # The connection form saves fields nobody touched as null; a connection URI carries objects as text.
    options = extra.get("storage_options") or {}
    if isinstance(options, str):
        try:
            options = json.loads(options)
        except ValueError:
            options = None
    if not isinstance(options, dict):
        raise InvalidCkptConnectionError(conn_id=conn_id, problem="storage_options in its extra is not a JSON object")
    return options


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)] if len(str(value)) >= _SHORTEST_NUMBER else []
    if isinstance(value, Mapping):
        return [
            text for key, part in value.items() for text in (_user_info(part) if key in _HARMLESS else _texts(part))
        ]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return []


def _user_info(value: Any) -> list[str]:
    if not isinstance(value, str) or "@" not in value:
        return []
    parts = urlsplit(value)
    return [text for text in (parts.username, parts.password) if text]
