"""Wait for a JobMaster without a worker slot, and without a try: it needs a triggerer, and so does this wait (W7)."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.triggers.comeback import Comeback, WaitOver
from airflow_provider_ckpt.triggers.comeback_watch import ComebackWatch
from airflow_provider_ckpt.triggers.group_wait import GroupWaitTrigger
from airflow_provider_ckpt.triggers.preparation import Preparation
from airflow_provider_ckpt.triggers.siblings import ASK_EVERY
from airflow_provider_ckpt.triggers.threads import in_thread


class AwaitedMasterTrigger(GroupWaitTrigger):
    """Fires when a JobMaster has the job again, or none is to come; or, of a job whose run has failed, when it is
    prepared again, or is not to be.

    ``deployment``: what the worker ran in; ``epoch``: of the last JobMaster that it knew of, or of the deployment.
    ``attempt``: how the journal names the task that waits, if it is for the next deployment; then the first two do not
    count.
    """

    names = (*GroupWaitTrigger.names, "deployment", "epoch", "attempt")

    def __init__(self, *, deployment: int, epoch: int, attempt: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.deployment = deployment
        self.epoch = epoch
        self.attempt = attempt
        self._watched: ComebackWatch | None = None

    async def _look(self) -> WaitOver | None:
        self._watched = self._watched or await self._watch()
        return await in_thread(self._watched.look, root=self.root)

    async def _watch(self) -> ComebackWatch:
        hook = await self._hook()
        every = max(1, round(ASK_EVERY / self.poll_interval))
        comeback = Comeback(self.deployment, self.epoch) if self.attempt is None else Preparation(self.attempt)
        return await in_thread(
            lambda: ComebackWatch(hook, self.job_id, comeback, self._asks(), every=every), root=self.root
        )
