"""Errors of a gate, or of the service that it asks."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class VariableKeyError(InvalidInputError):
    """An invalid key of an Airflow Variable. ``data``: key, problem."""

    template = (
        "gate=AirflowVariableGate({key!r}): {problem}. Give the key of a Variable; it may hold {{job_id}} and {{sink}}"
    )


class VariableUnreadableError(TransientError):
    """An Airflow Variable that could not be read. ``data``: key, conn_id, problem."""

    template = (
        "the Airflow Variable {key!r} could not be read over connection {conn_id!r}: {problem}. Nothing is released "
        "until it can be; it is asked again"
    )


class VariableNoAnswerError(TransientError):
    """An Airflow Variable whose text is neither true nor false. ``data``: key."""

    template = (
        "the Airflow Variable {key!r} is neither true nor false, so nothing is released. Set it to true to release, to "
        "false to hold"
    )
