"""What a task can be told, whatever runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class Task(Protocol):
    """One attempt of one subtask. One method is called at a time, and the JobMaster waits for it: from its own thread,
    ``trigger`` and ``pull_inputs`` also from others, side by side with those of other tasks. All return soon but for
    :meth:`stop` and what follows it; what takes long the task does in a thread of its own. It answers by reports."""

    @property
    def subtask(self) -> SubtaskId: ...

    @property
    def attempt(self) -> AttemptId: ...

    # -- commands

    def deploy(self, plan: VertexPlan) -> None:
        """Start with ``plan``, or go straight to the end if nothing is left to read."""

    def trigger(self, checkpoint: int) -> None:
        """Append the barrier, and acknowledge or decline it."""

    def pause(self, reason: PauseReason) -> None: ...

    def resume(self, plan: VertexPlan) -> None: ...

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        """Of a reconfiguration: make and try the query of ``plan`` beside the one that runs, and say how it went."""

    def drain(self, *, at_once: bool = False) -> None:
        """Read what is there of the unbounded sources, and end them; ``at_once``: end them where they stand."""

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        """Of a source with splits: read these, too, and publish each by one entry; ``is_last``: then come to the end of
        data. No other task is sent it."""

    def finish(self) -> None:
        """Nobody needs it any more: end of partition, and give everything back. The last command."""

    # -- the rest

    def pull_inputs(self) -> None:
        """Read on in the producers' logs. Called when one of them has advanced, and about once a second."""

    def check(self) -> None:
        """Raise what ended it, if nobody here did. Called about once a second."""

    def wait_for_batch(self, until: float) -> None:
        """Return between two batches, or when it is ``until`` (of ``time.monotonic``)."""

    def stop(self) -> None:
        """The run is over: stop where it stands. What was not published is done again by the next attempt."""

    def close(self) -> None:
        """After :meth:`stop`: return when nothing of this attempt runs any more."""
