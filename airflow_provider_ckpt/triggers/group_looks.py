"""Polls of a job that all waiting tasks of its group share in this triggerer.

Hundreds of subtasks may have finished while one continues, and each poll reads all new entries of the journal.
"""

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
    """Result of one poll.

    Args:
        state: The job in its journal. It must not be changed.
        coordinate: Airflow's last answer about the JobMaster's task, from before ``state`` was read. A job that ended
            in between is over, not alone. None: no answer so far.
        answer: Number of that answer.
    """

    state: JobState
    coordinate: str | None = None
    answer: int = 0


class GroupLooks:
    """Shared polls of one job, for one event loop.

    Args:
        look: Reads the journal. Blocks. Called in one thread at a time, of the threads of ``root``.
        coordinate: Asks Airflow for the state of the JobMaster's task. Called like ``look``.
        root: URI of the root.
        clock: Seconds of a clock that never goes back.
    """

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
        """Return a reading that began at most ``age`` seconds ago or is under way.

        Raises the error of the poll. A failed poll is not repeated sooner, either.
        """
        if self._made is None or (self._made.done() and self._clock() - self._begun_at >= age):
            self._begun_at = self._clock()
            self._made = asyncio.ensure_future(in_thread(self._read, root=self._root))
            self._made.add_done_callback(_seen)
        return await asyncio.shield(self._made)  # so that the end of one trigger does not end the poll for others

    def _read(self) -> Reading:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY:
            self._asked_at, said = now, self._coordinate()
            if said is not None:
                self._said, self._answers = said, self._answers + 1
        return Reading(self._look(), self._said, self._answers)


def _seen(made: asyncio.Future[Reading]) -> None:
    """Take note of the error of a poll whose trigger may be gone, so that asyncio does not log it."""
    if not made.cancelled():
        made.exception()
