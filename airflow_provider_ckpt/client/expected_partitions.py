"""The result partitions that a caller waits for."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.client.errors import NoSuchPartitionError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.subtask_id import SubtaskId


def expected_partitions(state: JobState, names: Iterable[str]) -> set[SubtaskId]:
    """Return the subtasks with a result partition that the names select.

    Before the job is planned each name is taken as a subtask, because nothing can be checked.

    Args:
        state: The job's state.
        names: Subtasks, or vertices with all of their subtasks.

    Raises NoSuchPartitionError for a name that the job does not have, or that has no partition because no subtask reads
    it and it is not kept.
    """
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
