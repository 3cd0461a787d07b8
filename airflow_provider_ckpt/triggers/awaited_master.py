"""The wait for a JobMaster, without a worker slot and without spending a try. It needs a triggerer (W7)."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.triggers.group_wait import GroupWaitTrigger
from airflow_provider_ckpt.triggers.master_available import (
    MasterAvailable,
    MasterAvailableWatch,
    Preparation,
    WaitResult,
)
from airflow_provider_ckpt.triggers.siblings import ASK_EVERY
from airflow_provider_ckpt.triggers.threads import in_thread


class AwaitedMasterTrigger(GroupWaitTrigger):
    """Trigger that fires when a JobMaster has the job again, or when none will come.

    With ``attempt`` it waits for a job whose run has failed. It then fires when the job is prepared again, or when it
    will not be. ``deployment`` and ``epoch`` do not count then.

    Args:
        deployment: Deployment in which the worker ran.
        epoch: Epoch of the last JobMaster that the worker knew, or of the deployment.
        attempt: Name of the waiting task in the journal, if it waits for the next deployment.
        common: See :class:`GroupWaitTrigger`.
    """

    names = (*GroupWaitTrigger.names, "deployment", "epoch", "attempt")

    def __init__(self, *, deployment: int, epoch: int, attempt: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.deployment = deployment
        self.epoch = epoch
        self.attempt = attempt
        self._watched: MasterAvailableWatch | None = None

    async def _look(self) -> WaitResult | None:
        self._watched = self._watched or await self._watch()
        return await in_thread(self._watched.look, root=self.root)

    async def _watch(self) -> MasterAvailableWatch:
        hook = await self._hook()
        every = max(1, round(ASK_EVERY / self.poll_interval))
        comeback = MasterAvailable(self.deployment, self.epoch) if self.attempt is None else Preparation(self.attempt)
        return await in_thread(
            lambda: MasterAvailableWatch(hook, self.job_id, comeback, self._asks(), every=every), root=self.root
        )
