"""The wait of a finished subtask in batch mode, without a worker slot and without spending a try.

The wait ends when the subtask's result is no longer needed, or when the subtask has to run again. A lost result is
produced again, but Airflow does not run a task again that has succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from airflow_provider_ckpt.client.job_facts import is_whole
from airflow_provider_ckpt.triggers.group_wait import GroupPolls, GroupWaitTrigger
from airflow_provider_ckpt.triggers.master_available import WaitResult
from airflow_provider_ckpt.triggers.result_retention import ResultRetention
from airflow_provider_ckpt.triggers.spark_application import SETTLING
from airflow_provider_ckpt.triggers.threads import in_thread

_SHARED: WeakValueDictionary[tuple[str | None, ...], GroupPolls] = WeakValueDictionary()
"""The shared polls of each group, as long as a trigger in this process uses them."""


class FinishedSubtaskTrigger(GroupWaitTrigger):
    """Trigger that waits with a :class:`ResultRetention`, which has the arguments. The triggers of a group share their
    polls."""

    names = (*GroupWaitTrigger.names, "attempt", "subtasks", "deployment")
    _clock = staticmethod(time.monotonic)

    def __init__(self, *, attempt: str, subtasks: Sequence[str], deployment: int, **common: Any) -> None:
        super().__init__(**common)
        self.attempt = attempt
        self.subtasks = [str(one) for one in subtasks]
        self.deployment = deployment
        self._kept = ResultRetention(attempt, subtasks, deployment)
        self._looks: GroupPolls | None = None

    async def _look(self) -> WaitResult | None:
        self._looks = self._looks or await self._group_looks()
        reading = await self._looks.reading(shared_age(self.poll_interval))
        if not is_whole(reading.state):
            problem = "; ".join(reading.state.damage) or "it is not there"
            self._say(f"The journal of job {self.job_id} cannot be read now: {problem}")
        return self._kept.judge(reading)

    async def _group_looks(self) -> GroupPolls:
        hook, ti = await self._hook(), self.task_instance
        run = (None, None) if ti is None else (ti.dag_id, ti.run_id)
        key = (self.ckpt_conn_id, self.root, self.job_id, self.coordinate, *run)
        looks = _SHARED.get(key)
        if looks is None:
            client = await in_thread(lambda: hook.client(self.job_id), root=self.root)
            looks = _SHARED.setdefault(key, GroupPolls(client.look, self._asks(), root=self.root, clock=self._clock))
        return looks


def shared_age(poll_interval: float) -> float:
    """Return how many seconds old a poll of another trigger may be to be used.

    With this age each trigger sees something new at each poll. It sees nothing from before its own wait, because the
    wait began SETTLING seconds before its first poll.
    """
    return min(poll_interval, SETTLING) / 2
