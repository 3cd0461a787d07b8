"""The sinks of a job as a release needs them (from the job's file or its journal), and their gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_ckpt.job.controller import Controller


@dataclass(frozen=True)
class PendingRelease:
    """The argument of a gate: the output of completed checkpoints that the sink has not released.

    ``checkpoint`` is the newest of these checkpoints. ``rows`` is the number of rows in their output.
    """

    job_id: str
    sink: str
    checkpoint: int
    rows: int


Gate = Callable[[PendingRelease], bool]
"""A function that returns True to release now. If it returns False, it is called again every few seconds.

The releasing process (the driver, the JobMaster, ``ckpt release``) calls the gate in a thread of its own, and only if
there is output to release. An error of the gate counts as a failed release, which is retried.
"""


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
    """A :class:`~.job.Job`, or the part of a job that the journal has."""

    @property
    def sinks(self) -> tuple[SinkOperator, ...]: ...

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """The job's controllers. The journal has none, because they are code."""
        ...
