"""Standing still: pause(subtask, reason) → paused(batch) → resume(subtask, plan k), one at a time (R20)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.pause_reason import PauseReason


@dataclass(frozen=True)
class Pause:
    subtask: str
    reason: PauseReason


class PlanChanges(ABC):
    """Changes of the plan for which subtasks have to stand still. One class for each kind of reason."""

    @abstractmethod
    def wanted(self) -> list[Pause]:
        """The pauses that are wanted now, oldest first. Asked whenever one could begin."""

    @abstractmethod
    def begun(self, pause: Pause) -> None:
        """The subtask is told: the pause is wanted no more."""

    @abstractmethod
    def begin_again(self, subtask: str, unheard: Pause | None) -> None:
        """Its next attempt begins, under all that is changed by now. ``unheard``: the pause that the attempt before was
        told of and did not come to."""

    @abstractmethod
    def change(self, pause: Pause, batch_id: int, now: float) -> Event | None:
        """The subtask stands still behind ``batch_id`` (-1: before its first batch). Returns what has to be in the
        journal before it goes on; None if it is there already."""


class Pauses:
    """The pause in progress, and the plan that every subtask runs under: 0 as deployed, one more at each resume."""

    def __init__(self, changes: Collection[PlanChanges]) -> None:
        self._changes = tuple(changes)
        self._plans: dict[str, int] = {}
        self._by: PlanChanges | None = None
        self.current: Pause | None = None
        self.stands_still = False
        """The change is in the journal; the subtask may go on."""

    def wanted(self) -> list[tuple[Pause, PlanChanges]]:
        return [(pause, changes) for changes in self._changes for pause in changes.wanted()]

    def begin(self, pause: Pause, by: PlanChanges) -> None:
        by.begun(pause)
        self.current, self._by, self.stands_still = pause, by, False

    def stood_still(self, batch_id: int, now: float) -> tuple[int, Event | None]:
        """The subtask of the current pause stands still. Returns the number of the plan that it goes on with, and what
        is to be journaled before."""
        assert self.current is not None
        assert self._by is not None
        self.stands_still = True
        number = self._plans[self.current.subtask] = self.plan(self.current.subtask) + 1
        return number, self._by.change(self.current, batch_id, now)

    def awaits(self, subtask: str, reason: PauseReason) -> bool:
        """Whether the subtask has still to say that it stands still for this reason."""
        return self.current == Pause(subtask, reason) and not self.stands_still

    def plan(self, subtask: str) -> int:
        return self._plans.get(subtask, 0)

    def begin_again(self, subtask: str) -> None:
        """Its next attempt stands still for nothing that the one before was told; what is wanted yet is said again."""
        current = self.current
        mine = current is not None and current.subtask == subtask
        for changes in self._changes:
            changes.begin_again(subtask, current if mine and changes is self._by and not self.stands_still else None)
        self.over(subtask)

    def over(self, subtask: str) -> None:
        """The subtask runs again, or ended by itself."""
        if self.current is not None and self.current.subtask == subtask:
            self.current, self._by, self.stands_still = None, None, False
