"""The state of a reconfiguration in progress, and of all changes before it (R21).

:class:`~..reconfigurer.Reconfigurer` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from airflow_provider_ckpt.coordinator.state.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.state.rescale_state import RescaleState
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskTable
from airflow_provider_ckpt.journal.events import Event, Reconfigured
from airflow_provider_ckpt.journal.kinds.reconfiguration import PhaseTimes
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.pause_reason import Reconfigure
from airflow_provider_ckpt.model.request_outcome import IN_PROGRESS, RequestOutcome
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import Settings, VertexSettings, merged


@dataclass
class ReconfigurationInProgress:
    """A reconfiguration from its acceptance to its outcome. Times are seconds of the coordinator's clock.

    Attributes:
        number: sequence number of the change. Abandoned changes have numbers, too.
        request: name of the request; None if a controller requested the change.
        change: vertex → changed settings.
        affected: subtasks of the vertices in ``change``.
        timeout: maximum seconds for the preparation of all queries, and again for the pause of all subtasks.
        trial: name under which the subtasks try their queries. An undecided change of the previous JobMaster may have
            had the same number, but not this name.
        prepared: subtask → time at which its new query was prepared.
        pause_requested: True if the subtasks were commanded to pause.
        paused: subtask → time at which it paused.
        decided: time at which the change was written into the journal; None before.
        restarted: subtasks whose state is repartitioned and whose next attempt is requested.
        ran: subtask → time at which it ran again.
        rescales: source with splits → its new number of readers.
        by: name of the controller that requested the change; None for a user.
        why: the controller's reason.
    """

    number: int
    request: str | None
    change: Settings
    affected: tuple[SubtaskId, ...]
    begun: float
    timeout: float
    trial: str
    prepared: dict[SubtaskId, float] = field(default_factory=dict)
    pause_requested: bool = False
    paused: dict[SubtaskId, float] = field(default_factory=dict)
    decided: float | None = None
    restarted: set[SubtaskId] = field(default_factory=set)
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
        """Return when the change is abandoned if still undecided, because an endless batch must not block the job."""
        is_prepared = self.affected and len(self.prepared) == len(self.affected)
        return (max(self.prepared.values()) if is_prepared else self.begun) + self.timeout

    def moves_state(self, subtask: SubtaskId) -> bool:
        return self.change[subtask.vertex].state_partitions is not None

    def times(self) -> dict[str, PhaseTimes]:
        """Return vertex → phase times of its slowest subtask, for vertices with subtasks that run again."""
        phases: dict[str, PhaseTimes] = {}
        for subtask in (subtask for subtask in self.affected if subtask in self.ran and subtask in self.paused):
            decided = self.paused[subtask] if self.decided is None else self.decided
            marks = (self.begun, self.prepared[subtask], self.paused[subtask], decided, self.ran[subtask])
            subtask_times = PhaseTimes(*(round(b - a, 3) for a, b in pairwise(marks)))
            slowest = phases.get(subtask.vertex, subtask_times)
            phases[subtask.vertex] = max(
                slowest, subtask_times, key=lambda phase_times: phase_times.update + phase_times.resume
            )
        return phases


class ReconfigurationState(PlanChanges[Reconfigure]):
    """The reconfigurations of the job, one at a time. The affected subtasks pause together, and resume one by one."""

    def __init__(
        self, subtasks: SubtaskTable, rescaling: RescaleState, settings: Settings, number: int, epoch: int
    ) -> None:
        """Create the state from earlier changes.

        Each change gets the next number. Late answers to an abandoned change do not count for a later change.

        Args:
            rescaling: the rescaling of sources with splits, as a part of the current change.
            settings: vertex → all settings that earlier changes have changed.
            number: sequence number of the last decided change, from 1; 0 if there was none.
        """
        self._subtasks, self._rescaling = subtasks, rescaling
        self._settings, self._last_begun, self._epoch = dict(settings), number, epoch
        self.current: ReconfigurationInProgress | None = None

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def last_begun(self) -> int:
        """Return the sequence number of the last change that began, even if it was abandoned."""
        return self._last_begun

    def begin(
        self,
        request: ReconfigureRequest,
        change: Settings,
        rescales: Mapping[str, int],
        affected: tuple[SubtaskId, ...],
        now: float,
        timeout: float,
    ) -> ReconfigurationInProgress:
        self._last_begun += 1
        self.current = ReconfigurationInProgress(
            number=self._last_begun,
            request=request.name or None,
            by=request.by,
            why=request.why,
            change=change,
            rescales=rescales,
            affected=affected,
            begun=now,
            timeout=timeout,
            trial=f"{self._epoch}.{self._last_begun}",
        )
        return self.current

    def end(self) -> None:
        self.current = None

    def prepared(self, subtask: SubtaskId, trial: str, digests: Mapping[str, str], now: float) -> None:
        """Record that a subtask has prepared its new query. ``digests``: operator → digest of its function's files."""
        current = self.current
        if not self._is_of_current(subtask, trial) or current is None:
            return
        current.prepared.setdefault(subtask, now)
        change = current.change[subtask.vertex]
        current.change = {**current.change, subtask.vertex: replace(change, digests=digests)}

    @property
    def changes_nothing(self) -> bool:
        """Return whether the change is prepared and has no effect, for example because each function already runs."""
        current = self.current
        if current is None or current.rescales or not self._all_prepared(current) or current.pause_requested:
            return False
        return merged(self._settings, current.change) == dict(self._settings)

    @property
    def inconsistent_file(self) -> str | None:
        """Return a file of functions that two operators have read with different contents; None if there is none.

        The file was edited meanwhile, or workers have different files. The result is None until all subtasks are
        prepared.
        """
        current = self.current
        if current is None or not self._all_prepared(current) or current.pause_requested:
            return None
        digest_of: dict[str, str] = {}
        for settings in current.change.values():
            for uid, reference in settings.logic.items():
                digest = settings.digests.get(uid)
                if digest is not None and digest_of.setdefault(reference, digest) != digest:
                    return reference
        return None

    def is_current(self, subtask: SubtaskId, trial: str) -> bool:
        """Return whether ``trial`` is in progress, and the subtask has not reported the result."""
        current = self.current
        return current is not None and self._is_of_current(subtask, trial) and subtask not in current.prepared

    def paused_at(self, subtask: SubtaskId, now: float) -> None:
        if self.current is not None and self.current.pause_requested and subtask in self.current.affected:
            self.current.paused.setdefault(subtask, now)

    def runs(self, subtask: SubtaskId, now: float) -> None:
        """Record that the subtask runs again after its pause."""
        if self.current is not None and self.current.decided is not None and subtask in self.current.affected:
            self.current.ran.setdefault(subtask, now)

    def planned(self, plan: VertexPlan, vertex: str) -> VertexPlan:
        """Return ``plan`` with the changes of the reconfiguration in progress."""
        assert self.current is not None
        return replace(plan, settings=merged(self._settings, self.current.change).get(vertex))

    def awaits_next_attempt(self, subtask: SubtaskId) -> bool:
        """Return whether the paused subtask still needs its next attempt, because its state is repartitioned."""
        current = self.current
        if current is None or current.decided is None or subtask not in current.affected:
            return False
        return current.moves_state(subtask) and subtask not in current.restarted

    def _is_of_current(self, subtask: SubtaskId, trial: str) -> bool:
        return self.current is not None and self.current.trial == trial and subtask in self.current.affected

    # -- reasons to pause

    def wanted(self) -> list[tuple[Pause[Reconfigure], ...]]:
        current = self.current
        if current is None or current.pause_requested or not self._all_prepared(current):
            return []
        subtasks = [subtask for subtask in current.affected if not self._subtasks.has_ended(subtask)]
        return [tuple(Pause(subtask, Reconfigure(current.number)) for subtask in subtasks)] if subtasks else []

    def _all_prepared(self, current: ReconfigurationInProgress) -> bool:
        return all(subtask in current.prepared or self._subtasks.has_ended(subtask) for subtask in current.affected)

    def note_requested(self, pause: Pause[Reconfigure]) -> None:
        if self.current is not None:
            self.current.pause_requested = True

    def attempt_began(self, subtask: SubtaskId, unreached: Pause[Reconfigure] | None) -> None:
        """Do nothing. The Reconfigurer abandons an undecided change, because the attempt that prepared it is gone."""

    def change(self, pause: Pause[Reconfigure], batch_id: int, now: float) -> Event | None:
        current = self.current
        if current is None or current.decided is not None or current.paused.keys() != {*current.affected}:
            return None  # a subtask has ended or restarted, and a partial change is abandoned
        return self.decide(current, now)

    def decide(self, current: ReconfigurationInProgress, now: float) -> Event:
        current.decided = now
        self._settings = merged(self._settings, current.change)
        graph = self._rescaling.decide(current.rescales, current.affected) if current.rescales else None
        return Reconfigured(current.number, self._settings, now, graph, current.by, current.request)

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        settings: VertexSettings | None = self._settings.get(subtask.vertex)
        return plan if settings is None else replace(plan, settings=settings)
