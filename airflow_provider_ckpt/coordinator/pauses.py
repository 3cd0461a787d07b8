"""Standing still: pause(subtask, reason) → paused(batch) → resume(subtask, plan k), one round at a time (R20). Of one
round none goes on before all stand still (R21)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
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
    def wanted(self) -> Sequence[Sequence[Pause[R]]]:
        """The rounds that are wanted now, oldest first: the subtasks of one stand still together, and none of them goes
        on before all do. Asked whenever one could begin."""

    @abstractmethod
    def begun(self, pause: Pause[R]) -> None:
        """The subtask is told: the pause is wanted no more."""

    @abstractmethod
    def begin_again(self, subtask: SubtaskId, unheard: Pause[R] | None) -> None:
        """Its next attempt begins, under all that is changed by now. ``unheard``: the pause that the attempt before was
        told of and did not come to."""

    @abstractmethod
    def change(self, pause: Pause[R], batch_id: int, now: float) -> Event | None:
        """The subtask stands still behind ``batch_id`` (-1: before its first batch), and so does every other one of the
        round: called for each. Returns what has to be in the journal before any of them goes on; None if it is there
        already."""

    @abstractmethod
    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        """``plan`` with all that is changed for the subtask by now; asked of each kind in turn."""


@dataclass(frozen=True)
class GoOn:
    """What follows from that a subtask stands still: ``events`` are in the journal before ``subtasks`` go on."""

    events: tuple[Event, ...] = ()
    subtasks: tuple[SubtaskId, ...] = ()


@dataclass
class _Round:
    """``told``: who has not gone on; ``standing``: who of them stands still, and behind which batch. ``is_decided``:
    they go on, with the change or without it."""

    by: PlanChanges[Any]
    told: dict[SubtaskId, Pause[Any]]
    standing: dict[SubtaskId, int] = field(default_factory=dict)
    is_decided: bool = False


class Pauses:
    """The round in progress, and the plan that every subtask runs under."""

    def __init__(self, changes: Collection[PlanChanges[Any]]) -> None:
        self._changes = tuple(changes)
        self._numbers: dict[SubtaskId, int] = {}
        self._round: _Round | None = None

    @property
    def current(self) -> tuple[Pause[Any], ...]:
        """Of the subtasks that stand still, are told to, or have not said yet that they went on."""
        return () if self._round is None else tuple(self._round.told.values())

    def wanted(self) -> list[tuple[tuple[Pause[Any], ...], PlanChanges[Any]]]:
        return [(tuple(pauses), changes) for changes in self._changes for pauses in changes.wanted()]

    def begin(self, pauses: Collection[Pause[Any]], by: PlanChanges[Any]) -> None:
        self._round = _Round(by, {pause.subtask: pause for pause in pauses})
        for pause in pauses:
            by.begun(pause)

    def stood_still(self, subtask: SubtaskId, batch_id: int, now: float) -> GoOn:
        """The subtask stands still. It goes on with its next :meth:`plan`."""
        assert self._round is not None
        self._round.standing[subtask] = batch_id
        self._numbers[subtask] = self._numbers.get(subtask, 0) + 1
        return GoOn((), (subtask,)) if self._round.is_decided else self._decide_if_all(now)

    def give_up(self, by: PlanChanges[Any]) -> GoOn:
        """The change of the round, if it is one of ``by``, does not come: whoever stands still goes on without it, and
        so does whoever comes to stand still yet."""
        if self._round is None or self._round.by is not by or self._round.is_decided:
            return GoOn()
        self._round.is_decided = True
        return GoOn((), tuple(self._round.standing))

    def awaits(self, subtask: SubtaskId, reason: PauseReason) -> bool:
        """Whether the subtask has still to say that it stands still for this reason."""
        now = self._round
        return now is not None and now.told.get(subtask) == Pause(subtask, reason) and subtask not in now.standing

    def awaits_any(self, subtask: SubtaskId) -> bool:
        """The same for whatever reason."""
        now = self._round
        return now is not None and subtask in now.told and subtask not in now.standing

    def plan(self, subtask: SubtaskId) -> VertexPlan:
        """What the subtask is to run now: number 0 as first deployed in the epoch, one more at each resume."""
        plan = VertexPlan(self._numbers.get(subtask, 0), ())
        for changes in self._changes:
            plan = changes.amended(plan, subtask)
        return plan

    def begin_again(self, subtask: SubtaskId, now: float) -> GoOn:
        """Its next attempt stands still for nothing that the one before was told; what is wanted yet is said again."""
        current = self._round
        unheard = None
        if current is not None and not current.is_decided and subtask not in current.standing:
            unheard = current.told.get(subtask)
        for changes in self._changes:
            changes.begin_again(subtask, unheard if current is not None and changes is current.by else None)
        return self.over(subtask, now)

    def over(self, subtask: SubtaskId, now: float) -> GoOn:
        """The subtask runs again, or ended by itself. Others of its round may have waited for it alone."""
        current = self._round
        if current is None or subtask not in current.told:
            return GoOn()
        del current.told[subtask]
        current.standing.pop(subtask, None)
        if not current.told:
            self._round = None
            return GoOn()
        return GoOn() if current.is_decided else self._decide_if_all(now)

    def _decide_if_all(self, now: float) -> GoOn:
        current = self._round
        assert current is not None
        if current.standing.keys() != current.told.keys():
            return GoOn()
        current.is_decided = True
        events = [current.by.change(current.told[name], batch, now) for name, batch in current.standing.items()]
        return GoOn(tuple(event for event in events if event is not None), tuple(current.standing))
