"""The Airflow connections of a job's sinks and sources, for drivers, which cannot ask Airflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_provider_ckpt.connections.connection import parse_connection
from airflow_provider_ckpt.connections.environment import handed, variable_of
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.storage.redaction import redact

_MARKS = re.compile(r"\{[{%#]")
"""Characters that begin a template. A connection id with a template is checked only after it is rendered."""
_IDENTITIES = frozenset(
    {"conn_id", "conn_ids", "epoch", "job_id", "sink", "source", "status", "subtask", "uid", "vertex"}
)
"""Keys in the data of errors whose values are never secret, even if a secret is the same word."""


@dataclass(frozen=True, repr=False)
class DriverConnections:
    """Connections for a driver. The ``repr`` shows no values.

    Args:
        environ: Environment variable -> connection as JSON. Airflow reads connections from the same variables.
        secrets: Texts in the values of ``environ`` that must not be shown.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        return redact(text, self.secrets)

    def __repr__(self) -> str:
        return f"DriverConnections({', '.join(self.environ)})"


def check_conn_ids(conn_ids: Any) -> None:
    """Refuse ``conn_ids`` that is no list of connection ids. Values that are known only at run time pass.

    Raises InvalidTaskArgumentError if ``conn_ids`` is no such list, or if two ids differ in case only.
    """
    if isinstance(conn_ids, str):
        problem = f"give a list of connection ids: conn_ids=[{conn_ids!r}]"
        raise InvalidTaskArgumentError(argument="conn_ids", value=conn_ids, problem=problem)
    if hasattr(conn_ids, "resolve"):  # XComArg and other values that Airflow resolves before the task runs
        return
    if not isinstance(conn_ids, Sequence) or not all(map(_is_conn_id, conn_ids)):
        raise InvalidTaskArgumentError(
            argument="conn_ids", value=conn_ids, problem="give a list of connection ids, which are texts"
        )
    texts = {conn_id for conn_id in conn_ids if isinstance(conn_id, str) and not _MARKS.search(conn_id)}
    if len({variable_of(conn_id) for conn_id in texts}) < len(texts):
        problem = "two of them differ in case only, and the driver has one environment variable for both: rename one"
        raise InvalidTaskArgumentError(argument="conn_ids", value=conn_ids, problem=problem)


def _is_conn_id(value: Any) -> bool:
    return hasattr(value, "resolve") or (isinstance(value, str) and bool(value.strip()))


def driver_connections(conn_ids: Iterable[str]) -> DriverConnections:
    """Return the connections for a driver. Their secrets are masked in the task's log.

    Raises InvalidTaskArgumentError if ``conn_ids`` is no list of connection ids or a connection does not exist, and
    BadConnectionError if a connection cannot be read.
    """
    check_conn_ids(conn_ids)
    environ: dict[str, str] = {}
    secrets: list[str] = []
    for conn_id in conn_ids:
        try:
            text = BaseHook.get_connection(conn_id).as_json()
        except AirflowNotFoundException:
            raise InvalidTaskArgumentError(
                "conn_ids names the Airflow connection {conn_id!r}, which does not exist. Create it, or leave it "
                "out if no sink or source of the job uses it.",
                conn_id=conn_id,
            ) from None
        secrets += parse_connection(conn_id, text).secrets()
        environ[variable_of(conn_id)] = text
    for secret in secrets:
        mask_secret(secret)
    return DriverConnections(environ, tuple(secrets))


@contextmanager
def connections_here(conn_ids: Iterable[str]) -> Iterator[None]:
    """Make the connections available to the sinks that the block binds in this process, as in a driver.

    An error of this package that leaves the block shows no secret. Raises the errors of :func:`driver_connections`.
    """
    connections = driver_connections(conn_ids)
    try:
        with handed(connections.environ):
            yield
    except CkptError as error:
        shown = _redacted(error, connections)
        if shown is error:
            raise
        raise shown from None  # because the cause contains the secret


def _redacted(error: CkptError, connections: DriverConnections) -> CkptError:
    if connections.redact(str(error)) == str(error):
        return error
    return type(error)(error.template, **_without_secrets(error.data, connections))


def _without_secrets(value: Any, connections: DriverConnections) -> Any:
    if isinstance(value, Mapping):
        return {
            name: part if name in _IDENTITIES else _without_secrets(part, connections) for name, part in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_without_secrets(part, connections) for part in value]
    if value is None or isinstance(value, bool | int | float):
        return value  # a number is no secret, and the error's template may format it
    shown = connections.redact(str(value))
    return value if shown == str(value) else shown
