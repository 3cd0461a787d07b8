"""What is wrong with a connection, without what it holds."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError


class ConnectionMissingError(InvalidInputError):
    """The process that is to use a connection was not given it. Data: conn_id, variable."""

    template = (
        "connection {conn_id!r} is not known to this process: its environment variable {variable} is not set. In "
        "Airflow name it in conn_ids=[{conn_id!r}] of the operator or the group, which hands it to every driver; "
        "elsewhere set the variable to the connection as JSON or as a URI, as Airflow takes it"
    )


class BadConnectionError(InvalidInputError):
    """Its text cannot be read, or it is not of the kind that is asked for. Data: conn_id, problem."""

    template = "connection {conn_id!r} cannot be used: {problem}"
