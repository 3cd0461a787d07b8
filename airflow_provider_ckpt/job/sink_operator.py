"""The sinks of a job as a release needs them, from the job's file or from its journal."""

from __future__ import annotations

from typing import Any, Protocol

from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.gate import Gate


class SinkOperator(Protocol):
    """Sink of a job: an :class:`~.operators.Operator`, or its record in the journal."""

    @property
    def uid(self) -> str: ...

    @property
    def sink(self) -> Any: ...

    @property
    def release(self) -> str: ...

    @property
    def gate(self) -> Gate | None: ...

    @property
    def transaction(self) -> str | None: ...


class HasSinks(Protocol):
    """A :class:`~.job.Job`, or the part of it that the journal has."""

    @property
    def sinks(self) -> tuple[SinkOperator, ...]: ...

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """The job's controllers. The journal has none, because they are code."""
        ...
