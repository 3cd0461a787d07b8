"""Wait, without a worker slot and without a try, until a subtask that has finished in batch mode is needed no more, or
has to run again: a result that is lost is produced again, and nobody runs a task again that has turned green."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.triggers.comeback import WaitOver
from airflow_provider_ckpt.triggers.group_looks import GroupLooks
from airflow_provider_ckpt.triggers.group_wait import GroupWaitTrigger
from airflow_provider_ckpt.triggers.kept_result import KeptResult
from airflow_provider_ckpt.triggers.spark_application import SETTLING
from airflow_provider_ckpt.triggers.threads import in_thread

_SHARED: WeakValueDictionary[tuple[str | None, ...], GroupLooks] = WeakValueDictionary()
"""By whose they are; as long as any trigger in this process has them."""


class FinishedSubtaskTrigger(GroupWaitTrigger):
    """See :class:`KeptResult`, which has the arguments. All of a group share their looks."""

    names = (*GroupWaitTrigger.names, "attempt", "subtasks", "deployment")
    _clock = staticmethod(time.monotonic)

    def __init__(self, *, attempt: str, subtasks: Sequence[str], deployment: int, **common: Any) -> None:
        super().__init__(**common)
        self.attempt = attempt
        self.subtasks = [str(one) for one in subtasks]
        self.deployment = deployment
        self._kept = KeptResult(attempt, subtasks, deployment)
        self._looks: GroupLooks | None = None

    async def _look(self) -> WaitOver | None:
        self._looks = self._looks or await self._group_looks()
        reading = await self._looks.reading(shared_age(self.poll_interval))
        if not is_whole(reading.state):
            problem = "; ".join(reading.state.damage) or "it is not there"
            self._say(f"The journal of job {self.job_id} cannot be read now: {problem}")
        return self._kept.judge(reading)

    async def _group_looks(self) -> GroupLooks:
        hook, ti = await self._hook(), self.task_instance
        run = (None, None) if ti is None else (ti.dag_id, ti.run_id)
        key = (self.ckpt_conn_id, self.root, self.job_id, self.coordinate, *run)
        looks = _SHARED.get(key)
        if looks is None:
            client = await in_thread(lambda: hook.client(self.job_id), root=self.root)
            looks = _SHARED.setdefault(key, GroupLooks(client.look, self._asks(), root=self.root, clock=self._clock))
        return looks


def shared_age(poll_interval: float) -> float:
    """Seconds since a look was begun that somebody else has taken, at most: so that each sees something new when it
    comes, and nothing from before its wait, which had begun SETTLING before its first look."""
    return min(poll_interval, SETTLING) / 2
