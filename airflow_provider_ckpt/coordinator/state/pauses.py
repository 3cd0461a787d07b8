"""Pauses of subtasks, one round at a time (R20). No subtask of a round resumes before all of them are paused (R21).

The steps are pause(subtask, reason) → paused(batch) → resume(subtask, plan k).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan

R = TypeVar("R", bound=PauseReason)


@dataclass(frozen=True)
class Pause(Generic[R]):
    subtask: SubtaskId
    reason: R


class PlanChanges(ABC, Generic[R]):
    """Changes of the plan for which subtasks must pause. Each kind of reason has its own subclass."""

    @abstractmethod
    def wanted(self) -> Sequence[Sequence[Pause[R]]]:
        """Return the pauses still to be requested, grouped into rounds that pause together, oldest first."""

    @abstractmethod
    def note_requested(self, pause: Pause[R]) -> None:
        """Record that the pause was requested from the subtask, so that it is no longer wanted."""

    @abstractmethod
    def attempt_began(self, subtask: SubtaskId, unreached: Pause[R] | None) -> None:
        """Record that the next attempt of the subtask begins, with all changes decided before.

        ``unreached`` is the requested pause that the previous attempt did not reach, or None.
        """

    @abstractmethod
    def change(self, pause: Pause[R], batch_id: int, now: float) -> Event | None:
        """Return the event that must be in the journal before the round resumes; None if there is nothing to journal.

        The method is called for each subtask of a round, when all subtasks are paused. ``batch_id`` is the id of the
        last batch before the pause; -1 before the first batch.
        """

    @abstractmethod
    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        """Return ``plan`` with all decided changes of this kind for the subtask."""


@dataclass(frozen=True)
class Resume:
    """The consequence of a pause: ``events`` must be in the journal before ``subtasks`` resume."""

    events: tuple[Event, ...] = ()
    subtasks: tuple[SubtaskId, ...] = ()


@dataclass
class _Round:
    """One round of pauses.

    Attributes:
        by: the kind of change for which the subtasks pause.
        pauses: the pauses of all subtasks that have not resumed.
        paused: paused subtask → id of its last batch; -1 before the first batch.
        is_decided: True after the decision to resume the subtasks, with the change or without it.
    """

    by: PlanChanges[Any]
    pauses: dict[SubtaskId, Pause[Any]]
    paused: dict[SubtaskId, int] = field(default_factory=dict)
    is_decided: bool = False


class Pauses:
    """The round in progress, and the plan that every subtask runs."""

    def __init__(self, changes: Collection[PlanChanges[Any]]) -> None:
        self._changes = tuple(changes)
        self._numbers: dict[SubtaskId, int] = {}
        self._round: _Round | None = None

    @property
    def current(self) -> tuple[Pause[Any], ...]:
        """Return the pauses in progress, whose subtasks have not reported that they run again."""
        return () if self._round is None else tuple(self._round.pauses.values())

    def wanted(self) -> list[tuple[tuple[Pause[Any], ...], PlanChanges[Any]]]:
        return [(tuple(pauses), changes) for changes in self._changes for pauses in changes.wanted()]

    def begin(self, pauses: Collection[Pause[Any]], by: PlanChanges[Any]) -> None:
        self._round = _Round(by, {pause.subtask: pause for pause in pauses})
        for pause in pauses:
            by.note_requested(pause)

    def paused_at(self, subtask: SubtaskId, batch_id: int, now: float) -> Resume:
        """Record that the subtask is paused. Return the subtasks that then resume, with their new :meth:`plan`."""
        assert self._round is not None
        self._round.paused[subtask] = batch_id
        self._numbers[subtask] = self._numbers.get(subtask, 0) + 1
        return Resume((), (subtask,)) if self._round.is_decided else self._decide_if_all(now)

    def abandon(self, by: PlanChanges[Any]) -> Resume:
        """Abandon the round of ``by`` if it is undecided. Return its paused subtasks, which resume unchanged."""
        if self._round is None or self._round.by is not by or self._round.is_decided:
            return Resume()
        self._round.is_decided = True
        return Resume((), tuple(self._round.paused))

    def awaits(self, subtask: SubtaskId, reason: PauseReason) -> bool:
        """Return whether a pause for ``reason`` was requested from the subtask, and the subtask has not paused."""
        current = self._round
        return (
            current is not None
            and current.pauses.get(subtask) == Pause(subtask, reason)
            and subtask not in current.paused
        )

    def awaits_any(self, subtask: SubtaskId) -> bool:
        """Return whether any pause was requested from the subtask, and the subtask has not paused."""
        current = self._round
        return current is not None and subtask in current.pauses and subtask not in current.paused

    def plan(self, subtask: SubtaskId) -> VertexPlan:
        """Return the subtask's current plan. Its number is 0 at first, and 1 higher after each pause."""
        plan = VertexPlan(self._numbers.get(subtask, 0), ())
        for changes in self._changes:
            plan = changes.amended(plan, subtask)
        return plan

    def attempt_began(self, subtask: SubtaskId, now: float) -> Resume:
        """Cancel the pause of the previous attempt. Return the subtasks that then resume.

        The next attempt pauses if the change still requires it.
        """
        current = self._round
        unreached = None
        if current is not None and not current.is_decided and subtask not in current.paused:
            unreached = current.pauses.get(subtask)
        for changes in self._changes:
            changes.attempt_began(subtask, unreached if current is not None and changes is current.by else None)
        return self.end_pause(subtask, now)

    def end_pause(self, subtask: SubtaskId, now: float) -> Resume:
        """Record that the subtask runs again, or has ended. Return the other subtasks that resume because of that."""
        current = self._round
        if current is None or subtask not in current.pauses:
            return Resume()
        del current.pauses[subtask]
        current.paused.pop(subtask, None)
        if not current.pauses:
            self._round = None
            return Resume()
        return Resume() if current.is_decided else self._decide_if_all(now)

    def _decide_if_all(self, now: float) -> Resume:
        current = self._round
        assert current is not None
        if current.paused.keys() != current.pauses.keys():
            return Resume()
        current.is_decided = True
        events = [current.by.change(current.pauses[name], batch, now) for name, batch in current.paused.items()]
        return Resume(tuple(event for event in events if event is not None), tuple(current.paused))
