"""A reconfiguration in progress, and what is changed by all before it (R21). Who decides on it is
:class:`~.reconfigurer.Reconfigurer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from airflow_provider_ckpt.coordinator.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.subtask_table import SubtaskTable
from airflow_provider_ckpt.journal.events import Event, GraphChanged, Reconfigured
from airflow_provider_ckpt.journal.kinds.reconfiguration import PhaseTimes
from airflow_provider_ckpt.model.pause_reason import Reconfigure
from airflow_provider_ckpt.model.request_outcome import IN_PROGRESS, RequestOutcome
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged


@dataclass
class ReconfigurationInProgress:
    """``change``: by vertex; ``affected``: its subtasks. ``timeout``: how long all of them may take to make their
    queries, and then to stand still. The times say when each of them has come how far: ``prepared`` its new query,
    ``stood`` still, ``ran`` again. ``is_told``: they are told to stand still. ``decided``: when it came into the
    journal. ``begun_anew``: those whose state moves, and whose next attempt is on its way. ``rescales``: sources with
    splits that are read by another number, too; ``by``: the controller that asked, and ``why``; ``outcome``: how it
    went, once it is over. ``trial``: what subtasks try their queries as; a change that the JobMaster before has begun,
    and has not decided, had the same ``number``."""

    number: int
    request: str | None
    change: Settings
    affected: tuple[SubtaskId, ...]
    begun: float
    timeout: float
    trial: str
    prepared: dict[SubtaskId, float] = field(default_factory=dict)
    is_told: bool = False
    stood: dict[SubtaskId, float] = field(default_factory=dict)
    decided: float | None = None
    begun_anew: set[SubtaskId] = field(default_factory=set)
    ran: dict[SubtaskId, float] = field(default_factory=dict)
    rescales: Mapping[str, int] = field(default_factory=dict)
    by: str | None = None
    why: str | None = None
    outcome: RequestOutcome | None = None

    def __str__(self) -> str:
        names = ", ".join((*self.change, *self.rescales))
        by = f"request {self.request}" if self.by is None else f"asked for by {self.by}"
        return f"reconfiguration {self.number} (of {names}, {by}) {IN_PROGRESS}"

    @property
    def deadline(self) -> float:
        """Of what comes next: a batch that never ends would hold those that stand still for ever, and the job's
        checkpoints."""
        is_prepared = self.affected and len(self.prepared) == len(self.affected)
        return (max(self.prepared.values()) if is_prepared else self.begun) + self.timeout

    def moves_state(self, subtask: SubtaskId) -> bool:
        return self.change[subtask.vertex].state_partitions is not None

    def times(self) -> dict[str, PhaseTimes]:
        """By vertex, of those that have run again; the slowest subtask counts."""
        found: dict[str, PhaseTimes] = {}
        for subtask in (one for one in self.affected if one in self.ran and one in self.stood):
            decided = self.stood[subtask] if self.decided is None else self.decided
            marks = (self.begun, self.prepared[subtask], self.stood[subtask], decided, self.ran[subtask])
            took = PhaseTimes(*(round(b - a, 3) for a, b in pairwise(marks)))
            before = found.get(subtask.vertex, took)
            found[subtask.vertex] = max(before, took, key=lambda one: one.update + one.resume)
        return found


class Reconfiguring(PlanChanges[Reconfigure]):
    """One at a time. Its subtasks stand still together: none of them goes on before it is in the journal, and then
    each does by itself."""

    def __init__(self, subtasks: SubtaskTable, settings: Settings, number: int, epoch: int) -> None:
        """``settings``: all that is changed by now; ``number``: of the last change that was decided; ``epoch``: of the
        JobMaster. The next change has a number of its own, whatever became of those before it here: an answer to one
        that was given up is none to it. ``rescale`` decides what a change says of sources with splits: see
        :meth:`Rescaler.decide`."""
        self._subtasks = subtasks
        self._settings, self._last_begun, self._epoch = dict(settings), number, epoch
        self.current: ReconfigurationInProgress | None = None
        self.rescale: Callable[[ReconfigurationInProgress, float], GraphChanged] | None = None

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def last_begun(self) -> int:
        """The number of the last change, whatever became of it."""
        return self._last_begun

    def begin(
        self, request: str | None, change: Settings, affected: tuple[SubtaskId, ...], now: float, timeout: float
    ) -> ReconfigurationInProgress:
        self._last_begun += 1
        trial = f"{self._epoch}.{self._last_begun}"
        self.current = ReconfigurationInProgress(self._last_begun, request, change, affected, now, timeout, trial)
        return self.current

    def over(self) -> None:
        self.current = None

    def prepared(self, subtask: SubtaskId, trial: str, digests: Mapping[str, str], now: float) -> None:
        """``digests``: of what was read of ``change``, which is part of it from here on."""
        current = self.current
        if not self._is_of_current(subtask, trial) or current is None:
            return
        current.prepared.setdefault(subtask, now)
        change = current.change[subtask.vertex]
        current.change = {**current.change, subtask.vertex: replace(change, digests=digests)}

    @property
    def changes_nothing(self) -> bool:
        """Known when all are prepared: a function that is assigned again may be another one, or the same."""
        now = self.current
        if now is None or now.rescales or not self._all_prepared(now) or now.is_told:
            return False
        return merged(self._settings, now.change) == dict(self._settings)

    @property
    def torn(self) -> str | None:
        """A version of the job of which two operators were given different states, known when all are prepared: it was
        edited while it was read, or is not the same for every worker."""
        now = self.current
        if now is None or not self._all_prepared(now) or now.is_told:
            return None
        seen: dict[str, str] = {}
        for one in now.change.values():
            for uid, reference in one.logic.items():
                digest = one.digests.get(uid)
                if digest is not None and seen.setdefault(reference, digest) != digest:
                    return reference
        return None

    def is_current(self, subtask: SubtaskId, trial: str) -> bool:
        """Whether the subtask has still to say something about its preparation."""
        now = self.current
        return now is not None and self._is_of_current(subtask, trial) and subtask not in now.prepared

    def stood_still(self, subtask: SubtaskId, now: float) -> None:
        if self.current is not None and self.current.is_told and subtask in self.current.affected:
            self.current.stood.setdefault(subtask, now)

    def runs(self, subtask: SubtaskId, now: float) -> None:
        """Again, if it has stood still."""
        if self.current is not None and self.current.decided is not None and subtask in self.current.affected:
            self.current.ran.setdefault(subtask, now)

    def planned(self, plan: VertexPlan, vertex: str) -> VertexPlan:
        """``plan`` with what the reconfiguration in progress changes."""
        assert self.current is not None
        return replace(plan, settings=merged(self._settings, self.current.change).get(vertex))

    def waits_to_begin_anew(self, subtask: SubtaskId) -> bool:
        """It stands still, the change is decided, and it goes on in another attempt, whose state is cut anew. That one
        may have to stand still for something else, before the others run."""
        now = self.current
        if now is None or now.decided is None or subtask not in now.affected:
            return False
        return now.moves_state(subtask) and subtask not in now.begun_anew

    def _is_of_current(self, subtask: SubtaskId, trial: str) -> bool:
        return self.current is not None and self.current.trial == trial and subtask in self.current.affected

    # -- reasons to stand still

    def wanted(self) -> list[tuple[Pause[Reconfigure], ...]]:
        now = self.current
        if now is None or now.is_told or not self._all_prepared(now):
            return []
        there = [one for one in now.affected if not self._subtasks.has_ended(one)]
        return [tuple(Pause(one, Reconfigure(now.number)) for one in there)] if there else []

    def _all_prepared(self, now: ReconfigurationInProgress) -> bool:
        return all(one in now.prepared or self._subtasks.has_ended(one) for one in now.affected)

    def begun(self, pause: Pause[Reconfigure]) -> None:
        if self.current is not None:
            self.current.is_told = True

    def begin_again(self, subtask: SubtaskId, unheard: Pause[Reconfigure] | None) -> None:
        """What is not in the journal by now Reconfigurer gives up: an attempt that it was prepared by is gone."""

    def change(self, pause: Pause[Reconfigure], batch_id: int, now: float) -> Event | None:
        current = self.current
        if current is None or current.decided is not None or current.stood.keys() != {*current.affected}:
            return None  # one has ended, or begun again, and the rest is a part of a change: it is given up
        return self.decide(current, now)

    def decide(self, current: ReconfigurationInProgress, now: float) -> Event:
        current.decided = now
        self._settings = merged(self._settings, current.change)
        graph = self.rescale(current, now) if self.rescale is not None and current.rescales else None
        return Reconfigured(current.number, self._settings, now, graph, current.by, current.request)

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        settings: VertexSettings | None = self._settings.get(subtask.vertex)
        return plan if settings is None else replace(plan, settings=settings)
