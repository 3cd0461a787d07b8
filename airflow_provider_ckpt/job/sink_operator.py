"""What whoever releases has to know of a job: its sinks, whether its file was read or its journal."""

from __future__ import annotations

from typing import Any, Protocol

from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.gate import Gate


class SinkOperator(Protocol):
    """A sink in a job: :class:`~.operators.Operator`, or what the journal tells of one."""

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
    """A :class:`~.job.Job`, or as much of one."""

    @property
    def sinks(self) -> tuple[SinkOperator, ...]: ...

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """None of what the journal tells of a job: they are code."""
        ...
