"""Connections travel to a driver in its environment, in Airflow's form, never in a file or on a command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from airflow_provider_ckpt.connections.connection import Connection, parse_connection
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.storage.redaction import note_given

_PREFIX = "AIRFLOW_CONN_"
_HANDED: dict[str, str] = {}
"""What this process was handed in memory, as its environment would hold it."""
_FOR_NOW: dict[object, Mapping[str, str]] = {}
"""The same, of each block that runs, whatever thread it is in: the later ones last."""


def variable_of(conn_id: str) -> str:
    """The environment variable in which Airflow, too, looks for the connection first."""
    return f"{_PREFIX}{conn_id.upper()}"


def hand_over(environ: Mapping[str, str]) -> None:
    """To whoever reads connections in this very process: a JobMaster that runs in an Airflow task."""
    _HANDED.update(environ)


@contextmanager
def handed(environ: Mapping[str, str]) -> Iterator[None]:
    """As :func:`hand_over`, for as long as the block runs: a process that goes on with something else keeps none."""
    block = object()
    _FOR_NOW[block] = dict(environ)
    try:
        yield
    finally:
        del _FOR_NOW[block]


def read_connection(conn_id: str, environ: Mapping[str, str] | None = None) -> Connection:
    """``environ``: this process's by default, and what it was handed. Raises ConnectionMissingError,
    BadConnectionError."""
    variable = variable_of(conn_id)
    places = [os.environ, _HANDED, *_FOR_NOW.values()] if environ is None else [environ]
    text = next((one[variable] for one in reversed(places) if variable in one), "")
    if not text.strip():
        raise ConnectionMissingError(conn_id=conn_id, variable=variable)
    found = parse_connection(conn_id, text)
    note_given(found.secrets())
    return found


def secrets_of_connections() -> set[str]:
    """Return the secrets of all connections that this process has, in the forms in which they may be printed."""
    texts = {
        (name, text)
        for place in (os.environ, _HANDED, *list(_FOR_NOW.values()))
        for name, text in place.items()
        if name.startswith(_PREFIX)
    }
    found: set[str] = set()
    for name, text in texts:
        with suppress(BadConnectionError):  # whoever reads it refuses it
            found.update(parse_connection(name.removeprefix(_PREFIX).lower(), text).secrets())
    return found
