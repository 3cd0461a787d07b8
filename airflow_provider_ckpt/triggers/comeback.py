"""Whether a JobMaster is back, for a worker that left because there was none (W7). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.triggers.siblings import GIVEN_UP

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.remote.outbox import Outbox


@dataclass(frozen=True)
class WaitOver:
    """``is_alone``: no JobMaster is to come any more: Airflow runs the task that would run it no more. ``is_blind``: a
    triggerer cannot tell; it may not read the job, say."""

    reason: str
    is_alone: bool = False
    is_blind: bool = False

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> WaitOver:
        return cls(event["reason"], event["is_alone"], event.get("is_blind", False))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Comeback:
    """Of a JobMaster to ``deployment``. ``epoch``: the newest that was known there when the last one was given up.

    One that was only out of reach, or stood still, goes on under its epoch: its beat grows then. What the first look
    finds tells nothing: it may have been written before the wait.
    """

    def __init__(self, deployment: int, epoch: int) -> None:
        self._deployment, self._epoch = deployment, epoch
        self._beat: int | None = None

    def judge(self, state: JobState, outbox: Outbox | None, coordinate: str | None) -> WaitOver | None:
        """None: wait on. ``outbox``: of the JobMaster of ``state``; ``coordinate``: Airflow's state of its task, None
        if that is not known, asked before the others were read: a job that has ended in between is over, not alone."""
        if state.deployment != self._deployment:
            return WaitOver(f"the deployment of epoch {self._deployment} is over, the job is {state.status}")
        if state.epoch != self._epoch:
            return WaitOver(f"the JobMaster of epoch {state.epoch} has the job")
        if outbox is not None and outbox.left is None and self._has_grown(outbox.beat):
            return WaitOver(f"the JobMaster of epoch {state.epoch} gives signs of life again")
        if coordinate in (*GIVEN_UP, "success"):
            return WaitOver(f"the task that is to run the JobMaster is {coordinate}", is_alone=True)
        return None

    def _has_grown(self, beat: int) -> bool:
        before, self._beat = self._beat, beat
        return before is not None and beat != before
