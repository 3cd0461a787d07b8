"""Subtasks that resume in their next attempt without a failure, because Spark's log of their input has grown too large.

The next attempt begins with a short log (R7). The current attempt does not shorten its own log. If it is fenced but
still runs, its successor may be copying its folder (R8). :class:`~..failover.Failover` begins the next attempts.
"""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.state.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.state.reconfiguration_state import ReconfigurationState
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import ReplaceAttempt
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class ReplacementState(PlanChanges[ReplaceAttempt]):
    """The planned restarts of subtasks, one at a time, each after a micro-batch.

    They wait while a reconfiguration is in progress, because the current attempt prepares it. They are not journaled.
    """

    def __init__(self, reconfiguration: ReconfigurationState) -> None:
        self._reconfiguration = reconfiguration
        self._wanted: dict[SubtaskId, None] = {}
        self._paused: dict[SubtaskId, None] = {}
        """Paused subtasks whose next attempts have still to be requested."""

    def request(self, subtask: SubtaskId) -> None:
        self._wanted[subtask] = None

    def awaits_next_attempt(self, subtask: SubtaskId) -> bool:
        return subtask in self._paused

    def take_paused(self) -> list[SubtaskId]:
        """Return the paused subtasks, whose next attempts must now begin. A later call does not return them again."""
        paused, self._paused = [*self._paused], {}
        return paused

    @property
    def _is_changing(self) -> bool:
        return self._reconfiguration.current is not None

    # -- reasons to pause

    def wanted(self) -> list[tuple[Pause[ReplaceAttempt]]]:
        return [] if self._is_changing else [(Pause(subtask, ReplaceAttempt()),) for subtask in self._wanted]

    def note_requested(self, pause: Pause[ReplaceAttempt]) -> None:
        del self._wanted[pause.subtask]

    def attempt_began(self, subtask: SubtaskId, unreached: Pause[ReplaceAttempt] | None) -> None:
        """Cancel the subtask's planned restart, because its log is short after a restart for any reason."""
        self._wanted.pop(subtask, None)
        self._paused.pop(subtask, None)

    def change(self, pause: Pause[ReplaceAttempt], batch_id: int, now: float) -> Event | None:
        if not self._is_changing:
            self._paused[pause.subtask] = None
        return None

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        return plan
