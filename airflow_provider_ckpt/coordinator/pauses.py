"""Standing still: pause(subtask, reason) → paused(batch) → resume(subtask, plan k), one at a time (R20)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan

R = TypeVar("R", bound=PauseReason)


@dataclass(frozen=True)
class Pause(Generic[R]):
    subtask: SubtaskId
    reason: R


class PlanChanges(ABC, Generic[R]):
    """Changes of the plan for which subtasks have to stand still. One class for each kind of reason."""

    @abstractmethod
    def wanted(self) -> list[Pause[R]]:
        """The pauses that are wanted now, oldest first. Asked whenever one could begin."""

    @abstractmethod
    def begun(self, pause: Pause[R]) -> None:
        """The subtask is told: the pause is wanted no more."""

    @abstractmethod
    def begin_again(self, subtask: SubtaskId, unheard: Pause[R] | None) -> None:
        """Its next attempt begins, under all that is changed by now. ``unheard``: the pause that the attempt before was
        told of and did not come to."""

    @abstractmethod
    def change(self, pause: Pause[R], batch_id: int, now: float) -> Event | None:
        """The subtask stands still behind ``batch_id`` (-1: before its first batch). Returns what has to be in the
        journal before it goes on; None if it is there already."""

    @abstractmethod
    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        """``plan`` with all that is changed for the subtask by now; asked of each kind in turn."""


class Pauses:
    """The pause in progress, and the plan that every subtask runs under."""

    def __init__(self, changes: Collection[PlanChanges[Any]]) -> None:
        self._changes = tuple(changes)
        self._numbers: dict[SubtaskId, int] = {}
        self._by: PlanChanges[Any] | None = None
        self.current: Pause[Any] | None = None
        self.stands_still = False
        """The change is in the journal; the subtask may go on."""

    def wanted(self) -> list[tuple[Pause[Any], PlanChanges[Any]]]:
        return [(pause, changes) for changes in self._changes for pause in changes.wanted()]

    def begin(self, pause: Pause[Any], by: PlanChanges[Any]) -> None:
        by.begun(pause)
        self.current, self._by, self.stands_still = pause, by, False

    def stood_still(self, batch_id: int, now: float) -> Event | None:
        """The subtask of the current pause stands still. Returns what is to be journaled before it goes on, which is
        with its next :meth:`plan`."""
        assert self.current is not None
        assert self._by is not None
        self.stands_still = True
        self._numbers[self.current.subtask] = self._numbers.get(self.current.subtask, 0) + 1
        return self._by.change(self.current, batch_id, now)

    def awaits(self, subtask: SubtaskId, reason: PauseReason) -> bool:
        """Whether the subtask has still to say that it stands still for this reason."""
        return self.current == Pause(subtask, reason) and not self.stands_still

    def plan(self, subtask: SubtaskId) -> VertexPlan:
        """What the subtask is to run now: number 0 as first deployed in the epoch, one more at each resume."""
        plan = VertexPlan(self._numbers.get(subtask, 0), ())
        for changes in self._changes:
            plan = changes.amended(plan, subtask)
        return plan

    def begin_again(self, subtask: SubtaskId) -> None:
        """Its next attempt stands still for nothing that the one before was told; what is wanted yet is said again."""
        current = self.current
        mine = current is not None and current.subtask == subtask
        for changes in self._changes:
            changes.begin_again(subtask, current if mine and changes is self._by and not self.stands_still else None)
        self.over(subtask)

    def over(self, subtask: SubtaskId) -> None:
        """The subtask runs again, or ended by itself."""
        if self.current is not None and self.current.subtask == subtask:
            self.current, self._by, self.stands_still = None, None, False
