"""Looks at a job that all tasks of its group share which wait in this triggerer: hundreds of subtasks may have finished
while one goes on, and each look reads all that was journaled since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ckpt.triggers.siblings import ASK_EVERY
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class Reading:
    """``state``: of the job; nobody may change it. ``coordinate``: what Airflow has said last of the JobMaster's task,
    before the job was looked at: one that has ended in between is over, not alone. None: it has said nothing, or was
    not asked yet. ``answer``: the number of that answer."""

    state: JobState
    coordinate: str | None = None
    answer: int = 0


class GroupLooks:
    """``look``: at the journal; ``coordinate``: asks Airflow for the state of the JobMaster's task. Both block, and are
    called in one thread at a time, of those of ``root``. ``clock``: seconds that never go back. For one event loop."""

    def __init__(
        self,
        look: Callable[[], JobState],
        coordinate: Callable[[], str | None],
        *,
        root: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._coordinate, self._root, self._clock = look, coordinate, root, clock
        self._made: asyncio.Future[Reading] | None = None
        self._begun_at = 0.0
        self._asked_at: float | None = None
        self._said: str | None = None
        self._answers = 0

    async def reading(self, age: float) -> Reading:
        """One that was begun no longer than ``age`` seconds ago, or is being made. Raises what a look fails with; what
        has failed is not tried more often, either."""
        if self._made is None or (self._made.done() and self._clock() - self._begun_at >= age):
            self._begun_at = self._clock()
            self._made = asyncio.ensure_future(in_thread(self._read, root=self._root))
            self._made.add_done_callback(_seen)
        return await asyncio.shield(self._made)  # a trigger that is ended meanwhile ends it for no other

    def _read(self) -> Reading:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY:
            self._asked_at, said = now, self._coordinate()
            if said is not None:
                self._said, self._answers = said, self._answers + 1
        return Reading(self._look(), self._said, self._answers)


def _seen(made: asyncio.Future[Reading]) -> None:
    """Whoever has asked for it may be gone: then nobody is told what it has failed with."""
    if not made.cancelled():
        made.exception()
