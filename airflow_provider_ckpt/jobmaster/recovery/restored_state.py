"""State of earlier epochs from the journal, for the coordinator and the first attempts of a new epoch."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.coordinator.state.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


def restored(state: JobState, splits: Mapping[str, RestoredSplits] | None = None) -> RestoredState:
    """Return the state with which the coordinator starts. Tasks report an end of data that only a log has."""
    return RestoredState(
        last_triggered=state.last_triggered,
        last_completed=state.last_completed,
        last_released=state.last_released,
        unreleased=state.unreleased,
        sinks_released=state.sinks_released,
        ended={vertex: tuple(uids) for vertex, uids in state.ended.items()},
        dropped={vertex: tuple(uids) for vertex, uids in state.dropped.items()},
        end_of_data=frozenset(state.end_of_data),
        finished=frozenset(state.finished),
        snapshots=state.valid_snapshots(),
        draining=state.draining,
        splits=splits or {},
        settings=state.settings,
        reconfigured=state.reconfigured,
        reconfigured_at=state.reconfigured_at,
        hosts=state.hosts,
        waiting=() if state.plan is None else state.plan.waiting,
    )


def first_plan(state: JobState, subtask: SubtaskId) -> VertexPlan:
    """Return a subtask's first plan in an epoch. The coordinator derives the same plan from :func:`restored`."""
    dropped = tuple(sorted(state.dropped.get(subtask.vertex, ())))
    return VertexPlan(0, dropped, settings=state.settings.get(subtask.vertex))
