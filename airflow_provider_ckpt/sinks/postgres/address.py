"""Address and credentials of a database. They are secret: never shown, and sent to executors only in a closure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError
from airflow_provider_ckpt.connections.plain_text import is_on_this_machine
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.storage.redaction import as_printed, redact

_LIBPQ = (
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "channel_binding", "gssencmode"),
    *("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    "tcp_user_timeout",
    *("target_session_attrs", "options", "hostaddr", "passfile", "service", "krbsrvname"),
)
"""The keys of a connection's extra that the sink uses. The other keys are for Airflow itself."""


@dataclass(frozen=True, repr=False)
class Address:
    """The address and credentials of a database. ``parameters``: connection parameters of libpq."""

    parameters: Mapping[str, Any] = field(hash=False)

    @classmethod
    def of_url(cls, url: str) -> Address | None:
        """Return the address in a URL; None if it cannot be parsed, instead of an error that could show a secret."""
        try:
            return cls({name: value for name, value in conninfo_to_dict(url).items() if value is not None})
        except ProgrammingError:
            return None

    @classmethod
    def of_connection(cls, connection: Connection) -> Address:
        """Return the address in an Airflow connection.

        Raises InvalidSinkError, BadConnectionError.
        """
        if connection.conn_type != "postgres":
            raise InvalidSinkError(
                "connection {conn_id!r} is of type {conn_type!r}; a PostgresSink needs one of type postgres",
                conn_id=connection.conn_id,
                conn_type=connection.conn_type,
            )
        if connection.extra.get("iam"):
            problem = "its extra asks for an IAM token (iam), which expires while a job runs; give it a password"
            raise BadConnectionError(conn_id=connection.conn_id, problem=problem)
        values = {
            "host": connection.host,
            "port": connection.port,
            "user": connection.login,
            "password": connection.password,
            "dbname": connection.schema,
            **{name: connection.extra[name] for name in _LIBPQ if name in connection.extra},
        }
        return cls({name: value for name, value in values.items() if value not in (None, "")})

    @property
    def may_lack_tls(self) -> bool:
        """True if libpq may connect over a network without TLS, and the user has not chosen that by a setting."""
        parameters = self.parameters
        is_chosen = any(name in parameters for name in ("sslmode", "service")) or "PGSSLMODE" in os.environ
        hosts = str(parameters.get("hostaddr") or parameters.get("host") or "").split(",")
        return not is_chosen and not all(map(is_on_this_machine, hosts))

    def redact(self, text: str) -> str:
        """Return libpq's error text without secrets, on one line."""
        secrets = [str(self.parameters[name]) for name in ("password", "sslpassword") if name in self.parameters]
        return redact(" ".join(text.split()), as_printed(secrets, [self.parameters.get("user")]))

    def __repr__(self) -> str:
        return "Address(***)"
