"""Transfer of Airflow connections to a driver in environment variables, never in a file or on a command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from airflow_provider_ckpt.connections.connection import Connection, parse_connection
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.storage.redaction import note_given

_PREFIX = "AIRFLOW_CONN_"
_IN_MEMORY: dict[str, str] = {}
"""Connections passed in memory: name of the environment variable → its value."""
_IN_BLOCKS: dict[object, Mapping[str, str]] = {}
"""Connections of the active :func:`handed` blocks of all threads. Later blocks win."""


def variable_of(conn_id: str) -> str:
    """Return the name of the environment variable for this connection. Airflow uses the same name."""
    return f"{_PREFIX}{conn_id.upper()}"


def hand_over(environ: Mapping[str, str]) -> None:
    """Pass connections (variable → value) to this process in memory, for a JobMaster that runs in an Airflow task."""
    _IN_MEMORY.update(environ)


@contextmanager
def handed(environ: Mapping[str, str]) -> Iterator[None]:
    """Pass connections as :func:`hand_over` does, but only during the block."""
    block = object()
    _IN_BLOCKS[block] = dict(environ)
    try:
        yield
    finally:
        del _IN_BLOCKS[block]


def read_connection(conn_id: str, environ: Mapping[str, str] | None = None) -> Connection:
    """Read a connection. ``environ``: variable → value; None means this process's environment and passed connections.

    Raises ConnectionMissingError, BadConnectionError.
    """
    variable = variable_of(conn_id)
    places = [os.environ, _IN_MEMORY, *_IN_BLOCKS.values()] if environ is None else [environ]
    text = next((place[variable] for place in reversed(places) if variable in place), "")
    if not text.strip():
        raise ConnectionMissingError(conn_id=conn_id, variable=variable)
    connection = parse_connection(conn_id, text)
    note_given(connection.secrets())
    return connection


def secrets_of_connections() -> set[str]:
    """Return the secrets of all connections of this process, in each spelling that a log or error may show."""
    texts = {
        (name, text)
        for place in (os.environ, _IN_MEMORY, *list(_IN_BLOCKS.values()))
        for name, text in place.items()
        if name.startswith(_PREFIX)
    }
    secrets: set[str] = set()
    for name, text in texts:
        with suppress(BadConnectionError):  # read_connection() refuses it later
            secrets.update(parse_connection(name.removeprefix(_PREFIX).lower(), text).secrets())
    return secrets
