"""One poll for a JobMaster that may be back. It reads the journal, the JobMaster's messages and, now and then,
Airflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.triggers.comeback import Comeback, WaitOver
from airflow_provider_ckpt.triggers.preparation import Preparation

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook


class ComebackWatch:
    """Repeated poll for a JobMaster.

    Args:
        hook: Hook of the root.
        job_id: The job.
        comeback: Decides whether the wait is over.
        coordinate: Asks Airflow for the state of the JobMaster's task.
        every: Only each such poll asks Airflow, because the subtasks of all groups may wait at once.
    """

    def __init__(
        self,
        hook: CheckpointHook,
        job_id: str,
        comeback: Comeback | Preparation,
        coordinate: Callable[[], str | None],
        *,
        every: int,
    ) -> None:
        self._storage, self._client = hook.storage(), hook.client(job_id)
        self._comeback, self._coordinate, self._every = comeback, coordinate, every
        self._looks = 0

    def look(self) -> WaitOver | None:
        """Return why the wait is over, or None to wait on. Blocks. Raises the errors of the storage and of a damaged
        journal."""
        from airflow_provider_ckpt.remote.master_watch import read_master

        coordinate = self._coordinate() if self._looks % self._every == 0 else None
        self._looks += 1
        state = self._client.look()
        outbox = read_master(self._storage, state) if state.deployment else None
        return self._comeback.judge(state, outbox, coordinate)
