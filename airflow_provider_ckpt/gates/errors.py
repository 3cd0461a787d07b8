"""What is wrong with a gate, or with what it asks."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError


class VariableKeyError(InvalidInputError):
    """A key of an Airflow Variable that cannot be one. Data: key, problem."""

    template = (
        "gate=AirflowVariableGate({key!r}): {problem}. Give the key of a Variable; it may hold {{job_id}} and {{sink}}"
    )


class VariableUnreadableError(TransientError):
    """Airflow did not say what the Variable is. Data: key, conn_id, problem."""

    template = (
        "the Airflow Variable {key!r} could not be read over connection {conn_id!r}: {problem}. Nothing is released "
        "until it can be; it is asked again"
    )


class VariableNoAnswerError(TransientError):
    """The Variable says neither yes nor no. Data: key."""

    template = (
        "the Airflow Variable {key!r} is neither true nor false, so nothing is released. Set it to true to release, to "
        "false to hold"
    )
