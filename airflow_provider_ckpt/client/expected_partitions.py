"""Which result partitions somebody waits for."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.client.errors import NoSuchPartitionError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.subtask_id import SubtaskId


def expected_partitions(state: JobState, names: Iterable[str]) -> set[SubtaskId]:
    """Of the subtasks, and of all subtasks of the vertices, of these names. Raises NoSuchPartitionError for one that is
    none of the job, or that nobody reads and that is not kept: it has no partition. A job that is not planned yet has
    none to name."""
    if state.plan is None:
        return {SubtaskId(name) for name in names}
    graph = state.graph()
    known = [subtask for vertex in graph.vertices if graph.publishes(vertex.uid) for subtask in vertex.subtasks]
    found: set[SubtaskId] = set()
    for name in names:
        named = {subtask for subtask in known if name in (subtask, subtask.vertex)}
        if not named:
            raise NoSuchPartitionError(job_id=state.job_id, name=name, known=", ".join(known) or "none")
        found |= named
    return found
