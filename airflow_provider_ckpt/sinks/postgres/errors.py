"""Errors of the PostgreSQL sink."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError


class NotAPostgresConnectionError(InvalidInputError):
    """The Airflow connection has another type than postgres. Data: conn_id, conn_type."""

    template = "connection {conn_id!r} is of type {conn_type!r}; a PostgresSink needs one of type postgres"
