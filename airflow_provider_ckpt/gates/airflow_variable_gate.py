"""A gate that reads an Airflow Variable."""

from __future__ import annotations

import threading

from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.gates.airflow_api import AirflowApi, ApiFailedError
from airflow_provider_ckpt.gates.errors import GateUndecidedError
from airflow_provider_ckpt.job.sink_operator import PendingRelease

_ANSWERS = {"true": True, "false": False}


class AirflowVariableGate:
    """A gate of a sink: ``job.sink(…, gate=AirflowVariableGate("orders_approved", conn_id="airflow_api"))``.

    A user sets the Variable to ``true`` in the UI to release the held output. ``false`` and a missing Variable hold the
    output. Any other text, or a server that does not answer, fails the release, which is retried. Case is ignored.

    The releasing process is a driver, a JobMaster or ``ckpt release``. It reads the Variable over Airflow's REST API
    each time it has rows to release.

    Args:
        key: key of the Variable. ``{job_id}`` and ``{sink}`` in it are replaced.
        conn_id: connection whose host is the API server's address, with a login and password or a ``token`` in its
            extra. Name it in ``conn_ids`` of the operator.

    Raises InvalidInputError for an unusable ``key``. A release raises ConnectionMissingError, BadConnectionError,
    GateUndecidedError.
    """

    def __init__(self, key: str, conn_id: str) -> None:
        self.key, self.conn_id = key, conn_id
        self._key_for("job", "sink")
        self._lock = threading.Lock()
        self._api: AirflowApi | None = None

    def __repr__(self) -> str:
        return f"AirflowVariableGate({self.key!r}, {self.conn_id!r})"

    def __call__(self, pending: PendingRelease) -> bool:
        key = self._key_for(pending.job_id, pending.sink)
        with self._lock:  # several sinks may share a gate
            value, problem = self._read(key)
        if problem is not None:
            raise GateUndecidedError(
                "the Airflow Variable {key!r} could not be read over connection {conn_id!r}: {problem}. Nothing is "
                "released until it can be; it is asked again",
                key=key,
                conn_id=self.conn_id,
                problem=problem,
            )
        if value is None:
            return False
        if value.strip().lower() not in _ANSWERS:
            raise GateUndecidedError(
                "the Airflow Variable {key!r} is neither true nor false, so nothing is released. Set it to true to "
                "release, to false to hold",
                key=key,
            )
        return _ANSWERS[value.strip().lower()]

    def _read(self, key: str) -> tuple[str | None, str | None]:
        if self._api is None:
            self._api = AirflowApi(read_connection(self.conn_id))
        try:
            return self._api.variable(key), None
        except ApiFailedError as error:
            return None, str(error)

    def _key_for(self, job_id: str, sink: str) -> str:
        if not isinstance(self.key, str) or not self.key.strip():
            raise self._bad_key("that is no key")
        try:
            return self.key.format(job_id=job_id, sink=sink)
        except (KeyError, IndexError, ValueError, AttributeError):
            raise self._bad_key("it has other braces") from None

    def _bad_key(self, problem: str) -> InvalidInputError:
        return InvalidInputError(
            "gate=AirflowVariableGate({key!r}): {problem}. Give the key of a Variable; it may hold {{job_id}} and "
            "{{sink}}",
            key=self.key,
            problem=problem,
        )
