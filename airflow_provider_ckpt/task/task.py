"""The interface through which the JobMaster controls a task of any kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class Task(Protocol):
    """One attempt of one subtask, controlled by commands. The task answers with reports.

    The JobMaster calls one method at a time, from its own thread, and waits for it. ``trigger`` and ``pull_inputs`` are
    also called from other threads, in parallel with those of other tasks. All methods except :meth:`stop` and
    :meth:`close` return soon, because the task does longer work in its own thread.
    """

    @property
    def subtask(self) -> SubtaskId: ...

    @property
    def attempt(self) -> AttemptId: ...

    # -- commands

    def deploy(self, plan: VertexPlan) -> None:
        """Start with ``plan``, or go directly to the end of data if there is nothing to read."""

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier of ``checkpoint``, and acknowledge or decline it."""

    def pause(self, reason: PauseReason) -> None: ...

    def resume(self, plan: VertexPlan) -> None: ...

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        """Try the query of ``plan`` for a reconfiguration while the current query runs. Report the result."""

    def drain(self, *, at_once: bool = False) -> None:
        """Read bounded sources to their ends, then what unbounded sources have, and end.

        ``at_once``: end the unbounded sources without further reading.
        """

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        """Add splits to read. ``is_last``: True if no more will follow, so that the task ends its data after them."""

    def finish(self) -> None:
        """Append the end of partition and free all resources. This is the last command."""

    # -- the rest

    def pull_inputs(self) -> None:
        """Read new entries of the producers' logs. Called when a producer has advanced, and about once a second."""

    def check(self) -> None:
        """Raise the error that ended the task, if no other method has raised it. Called about once a second."""

    def wait_for_batch(self, until: float) -> None:
        """Wait until no micro-batch runs, but at most until the time ``until`` (of ``time.monotonic``)."""

    def stop(self) -> None:
        """Stop at once, because the run is over. The next attempt repeats the unpublished work."""

    def close(self) -> None:
        """Return when nothing of this attempt runs. Called after :meth:`stop`."""
