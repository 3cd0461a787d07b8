"""The interface through which the JobMaster controls a task of any kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class Task(Protocol):
    """One attempt of one subtask. It answers with reports.

    The JobMaster calls one method at a time, from its own thread, and waits for it. ``trigger`` and ``pull_inputs`` are
    also called from other threads, in parallel with those of other tasks. All methods return soon, except :meth:`stop`
    and :meth:`close`. The task does longer work in a thread of its own.
    """

    @property
    def subtask(self) -> SubtaskId: ...

    @property
    def attempt(self) -> AttemptId: ...

    # -- commands

    def deploy(self, plan: VertexPlan) -> None:
        """Start with ``plan``, or go directly to the end if nothing is left to read."""

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier, and acknowledge or decline it."""

    def pause(self, reason: PauseReason) -> None: ...

    def resume(self, plan: VertexPlan) -> None: ...

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        """Try the query of ``plan`` for a reconfiguration while the current query runs. Report the result."""

    def drain(self, *, at_once: bool = False) -> None:
        """Read what the unbounded sources have now, and end them. ``at_once`` ends them without further reading."""

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        """Read these splits, too, and publish each with one entry. After ``is_last`` the task ends its data."""

    def finish(self) -> None:
        """Append the end of partition and free all resources. This is the last command."""

    # -- the rest

    def pull_inputs(self) -> None:
        """Read new entries of the producers' logs. Called when a producer has advanced, and about once a second."""

    def check(self) -> None:
        """Raise the error that ended the task, if no other method has raised it. It is called about once a second."""

    def wait_for_batch(self, until: float) -> None:
        """Return between two batches, or at the time ``until`` (of ``time.monotonic``)."""

    def stop(self) -> None:
        """Stop at once, because the run is over. The next attempt repeats the work that was not published."""

    def close(self) -> None:
        """Return when nothing of this attempt runs any longer. It is called after :meth:`stop`."""
