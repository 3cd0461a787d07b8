"""The subtasks that may close. A subtask with sinks waits for the release of its final checkpoint (R16)."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.model.ids import SubtaskId


class FinalCheckpoints:
    """The subtasks at their end of data, and the final checkpoint of each.

    The final checkpoint of a subtask is the first completed checkpoint whose barrier follows the subtask's end of data.
    The barrier follows if it was triggered after the report of that end. It also follows if the checkpoint has a
    ``finished`` snapshot of the subtask. The release of a later checkpoint also counts, because it includes earlier
    checkpoints. A subtask without sinks may close without a final checkpoint.
    """

    def __init__(self, graph: RunningGraph, restored: RestoredState) -> None:
        self._graph = graph
        endless = [vertex for vertex in graph.now.vertices if set(vertex.sources) - set(vertex.bounded_sources)]
        self.unbounded = tuple(name for vertex in endless for name in vertex.subtasks)
        """Subtasks with an unbounded source, which ends only on request."""
        self._waiting: dict[SubtaskId, int | None] = {}
        self._covered_before = {
            name: restored.last_completed for name, snapshot in restored.snapshots.items() if snapshot.finished
        }

    def at_end_of_data(self, subtask: SubtaskId, is_new: bool) -> bool:
        """Record a subtask's end of data. Return whether the subtask needs a new checkpoint.

        ``is_new`` is False if this end of data was already in the journal.
        """
        vertex = self._graph.now.vertex(subtask.vertex)
        if not vertex.sinks:
            self._waiting[subtask] = 0
            return is_new and bool(vertex.sources)
        covered = self._covered_before.get(subtask)
        self._waiting[subtask] = covered
        return covered is None

    def completed(self, checkpoint: int, covered: frozenset[SubtaskId]) -> None:
        for subtask, final in self._waiting.items():
            if final is None and subtask in covered:
                self._waiting[subtask] = checkpoint

    def may_finish(self, last_released: int) -> list[SubtaskId]:
        """Return the subtasks whose final checkpoint is released. A later call does not return them again."""
        ready = [subtask for subtask, final in self._waiting.items() if final is not None and final <= last_released]
        for subtask in ready:
            del self._waiting[subtask]
        return ready

    def forget(self, subtask: SubtaskId) -> None:
        self._waiting.pop(subtask, None)
