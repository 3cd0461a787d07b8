"""Subtasks that go on in their next attempt though nothing failed: Spark's log of what they read has grown.

An attempt begins with a short one (R7). It is not shortened where it lies: the folder of an attempt that was overtaken
is copied while that may be alive yet, and whoever copies it goes by what its feed names (R8). Who has the next attempts
begin is :class:`~.renewer.Renewer`.
"""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.reconfiguring import Reconfiguring
from airflow_provider_ckpt.coordinator.rescaling import Rescaling
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.pause_reason import BeginAnew
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class Renewing(PlanChanges[BeginAnew]):
    """One subtask at a time, each behind a micro-batch. A change that somebody asks for comes first: it is prepared by
    the attempt of now. Nothing is in the journal: who is not begun anew goes on as it is, and tells again."""

    def __init__(self, reconfiguring: Reconfiguring, rescaling: Rescaling) -> None:
        self._reconfiguring, self._rescaling = reconfiguring, rescaling
        self._wanted: dict[SubtaskId, None] = {}
        self._standing: dict[SubtaskId, None] = {}
        """They stand still, and their next attempts are not told to begin."""

    def want(self, subtask: SubtaskId) -> None:
        self._wanted[subtask] = None

    def waits_to_begin_anew(self, subtask: SubtaskId) -> bool:
        return subtask in self._standing

    def take(self) -> list[SubtaskId]:
        """Those whose next attempts are to begin now."""
        found, self._standing = [*self._standing], {}
        return found

    @property
    def _is_changing(self) -> bool:
        return self._reconfiguring.current is not None or self._rescaling.current is not None

    # -- reasons to stand still

    def wanted(self) -> list[tuple[Pause[BeginAnew]]]:
        return [] if self._is_changing else [(Pause(subtask, BeginAnew()),) for subtask in self._wanted]

    def begun(self, pause: Pause[BeginAnew]) -> None:
        del self._wanted[pause.subtask]

    def begin_again(self, subtask: SubtaskId, unheard: Pause[BeginAnew] | None) -> None:
        """Whatever for: its log is short."""
        self._wanted.pop(subtask, None)
        self._standing.pop(subtask, None)

    def change(self, pause: Pause[BeginAnew], batch_id: int, now: float) -> Event | None:
        if not self._is_changing:
            self._standing[pause.subtask] = None
        return None

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        return plan
