"""Errors of connections. They show no value of a connection."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError


class ConnectionMissingError(InvalidInputError):
    """A connection that this process needs was not passed to it. ``data``: conn_id, variable."""

    template = (
        "connection {conn_id!r} is not known to this process: its environment variable {variable} is not set. In "
        "Airflow name it in conn_ids=[{conn_id!r}] of the operator or the group, which hands it to every driver; "
        "elsewhere set the variable to the connection as JSON or as a URI, as Airflow takes it"
    )


class BadConnectionError(InvalidInputError):
    """The text of a connection is unreadable, or its type is wrong. ``data``: conn_id, problem."""

    template = "connection {conn_id!r} cannot be used: {problem}"
