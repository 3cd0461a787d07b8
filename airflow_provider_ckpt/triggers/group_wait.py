"""The base class of triggers in which a group's task waits, without a worker slot and without spending a try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ckpt.triggers.base import WaitTrigger
from airflow_provider_ckpt.triggers.group_task_states import Siblings


class GroupWaitTrigger(WaitTrigger):
    """Base of the triggers in which a group's task waits. Each fires once, with a :class:`WaitResult` as JSON.

    Args:
        coordinate: Id of the task that runs the JobMaster.
    """

    names: Sequence[str] = ("job_id", "coordinate", "ckpt_conn_id", "root", "poll_interval")

    def __init__(
        self, *, job_id: str, coordinate: str, ckpt_conn_id: str | None, root: str, poll_interval: float = 10.0
    ) -> None:
        super().__init__(poll_interval=poll_interval, ckpt_conn_id=ckpt_conn_id, root=root)
        self.job_id = job_id
        self.coordinate = coordinate

    def _result_of(self, error: Exception) -> WaitResult:
        return WaitResult(str(error), is_blind=True)  # the worker decides, because it may have better access

    def _state_reader(self) -> Callable[[], str | None]:
        """Return a function that returns Airflow's state of the JobMaster's task.

        Under ``dag.test()`` that state is None, because the trigger does not get its task instance there.
        """
        ti, coordinate = self.task_instance, self.coordinate
        if ti is None:
            return lambda: None
        siblings = Siblings.of(ti, "")
        return lambda: siblings.state(coordinate)


@dataclass(frozen=True)
class WaitResult:
    """The reason for the end of a wait.

    Args:
        is_alone: True if no JobMaster will start, because Airflow no longer runs its task.
        is_blind: True if the triggerer cannot judge the job, for example because it may not read the root.
    """

    reason: str
    is_alone: bool = False
    is_blind: bool = False

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> WaitResult:
        return cls(event["reason"], event["is_alone"], event.get("is_blind", False))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
