"""The check whether a JobMaster is back, for a worker that left because there was none (W7). Pure."""

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
    """End of a wait.

    Args:
        reason: Why the wait is over.
        is_alone: True if no JobMaster will come, because Airflow no longer runs its task.
        is_blind: True if the triggerer cannot decide, for example because it may not read the job.
    """

    reason: str
    is_alone: bool = False
    is_blind: bool = False

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> WaitOver:
        return cls(event["reason"], event["is_alone"], event.get("is_blind", False))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Comeback:
    """Wait for a JobMaster of a deployment.

    A JobMaster that was only unreachable, or paused, continues under its epoch. Its beat grows then. The first beat
    shows nothing, because it may have been written before the wait.
    """

    def __init__(self, deployment: int, epoch: int) -> None:
        """Begin a wait.

        Args:
            deployment: Deployment in which the worker ran.
            epoch: Epoch of the newest JobMaster that the worker knew when it left.
        """
        self._deployment, self._epoch = deployment, epoch
        self._beat: int | None = None

    def judge(self, state: JobState, outbox: Outbox | None, coordinate: str | None) -> WaitOver | None:
        """Return why the wait is over, or None to wait on.

        Args:
            state: The job in its journal.
            outbox: Messages of the JobMaster of ``state``.
            coordinate: Airflow's state of the JobMaster's task, None if it is not known. The caller must ask for it
                before it reads the others. A job that ends in between is then over, not alone.
        """
        if state.deployment != self._deployment:
            return WaitOver(f"the deployment of epoch {self._deployment} is over, the job is {state.status}")
        if state.epoch != self._epoch:
            return WaitOver(f"the JobMaster of epoch {state.epoch} has the job")
        if outbox is not None and outbox.left is None and self._has_grown(outbox.beat):
            return WaitOver(f"the JobMaster of epoch {state.epoch} gives signs of life again")
        if coordinate in (*GIVEN_UP, "success"):
            return WaitOver(f"the task that runs the JobMaster is {coordinate}", is_alone=True)
        return None

    def _has_grown(self, beat: int) -> bool:
        before, self._beat = self._beat, beat
        return before is not None and beat != before
