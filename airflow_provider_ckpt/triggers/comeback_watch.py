"""One look for a JobMaster that may be back: at the journal, at its own object, and now and then at Airflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.triggers.comeback import Comeback, WaitOver
from airflow_provider_ckpt.triggers.preparation import Preparation

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook


class ComebackWatch:
    """``comeback``: what is waited for. ``coordinate``: asks Airflow for the state of the task that runs the JobMaster,
    with each ``every``-th look: all subtasks of all groups may wait at once."""

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
        """None: wait on. Blocking; raises the storage's errors, and what the journal is damaged with."""
        from airflow_provider_ckpt.remote.master_watch import read_master

        coordinate = self._coordinate() if self._looks % self._every == 0 else None
        self._looks += 1
        state = self._client.look()
        outbox = read_master(self._storage, state) if state.deployment else None
        return self._comeback.judge(state, outbox, coordinate)
