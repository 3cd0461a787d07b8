"""The sources that have ended, and the finished sources that a running query can leave out (R2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_ckpt.coordinator.state.pauses import Pause, PlanChanges
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.journal.events import Event, SourceDropped
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.vertex_plan import VertexPlan


class EndedSources(PlanChanges[DropSource]):
    """The ends of sources, and the pauses in which queries drop ended sources.

    A source has ended when every subtask of its vertex has read it to its end, or has ended itself. Each subtask then
    pauses and resumes without the source. The journal records the drop before the first subtask resumes.
    """

    def __init__(
        self,
        graph: RunningGraph,
        ended: Mapping[str, Collection[str]],
        dropped: Mapping[str, Collection[str]],
    ) -> None:
        self._graph = graph
        self._ended = {(vertex, uid) for vertex, uids in ended.items() for uid in uids}
        self._dropped = {(vertex, uid) for vertex, uids in dropped.items() for uid in uids}
        self._reports: dict[tuple[str, str], dict[SubtaskId, int]] = {}
        self._ended_subtasks: dict[str, set[SubtaskId]] = {}
        self._waiting: dict[tuple[SubtaskId, str], None] = {}
        self._left_out: set[tuple[SubtaskId, str]] = set()

    @property
    def all_ended(self) -> frozenset[tuple[str, str]]:
        """Return (vertex, uid) of every source that has ended, including dropped sources."""
        return frozenset(self._ended | self._dropped)

    # -- reports

    def report(self, subtask: SubtaskId, uid: str, batch_id: int, droppable: bool) -> list[tuple[str, int]]:
        """Record that a subtask has read a source to its end.

        Args:
            batch_id: the batch that read the last data of the source.
            droppable: True if the subtask's query can leave the source out.

        Returns:
            [(uid, last batch id of any subtask)] for each source of the vertex that has ended by this report.
        """
        vertex = subtask.vertex
        self._reports.setdefault((vertex, uid), {})[subtask] = batch_id
        if droppable and (subtask, uid) not in self._left_out and (vertex, uid) not in self._dropped:
            self._waiting[(subtask, uid)] = None
        return self._new_ends(vertex)

    def subtask_ended(self, subtask: SubtaskId) -> list[tuple[str, int]]:
        """Record that a subtask has ended, so that it need not drop sources. Return the same as :meth:`report`."""
        vertex = subtask.vertex
        self._ended_subtasks.setdefault(vertex, set()).add(subtask)
        self._waiting = {drop: None for drop in self._waiting if drop[0] != subtask}
        return self._new_ends(vertex)

    def _new_ends(self, vertex: str) -> list[tuple[str, int]]:
        new_ends = []
        for (owner, uid), reports in self._reports.items():
            if owner == vertex and (vertex, uid) not in self._ended | self._dropped:
                ended = self._ended_subtasks.get(vertex, set())
                if len(ended.union(reports)) == self._graph.now.vertex(vertex).parallelism:
                    self._ended.add((vertex, uid))
                    new_ends.append((uid, max(reports.values())))
        return new_ends

    # -- reasons to pause

    def wanted(self) -> list[tuple[Pause[DropSource]]]:
        """Return a round for each ended source that a subtask's query still includes, in the order of the reports."""
        return [
            (Pause(subtask, DropSource(uid)),)
            for subtask, uid in self._waiting
            if (subtask.vertex, uid) in self.all_ended
        ]

    def note_requested(self, pause: Pause[DropSource]) -> None:
        key = (pause.subtask, pause.reason.uid)
        del self._waiting[key]
        self._left_out.add(key)

    def attempt_began(self, subtask: SubtaskId, unreached: Pause[DropSource] | None) -> None:
        if unreached is not None:
            key = (subtask, unreached.reason.uid)
            self._left_out.discard(key)
            self._waiting[key] = None
        self._note_left_out(subtask)

    def change(self, pause: Pause[DropSource], batch_id: int, now: float) -> Event | None:
        vertex, uid = pause.subtask.vertex, pause.reason.uid
        self._note_left_out(pause.subtask)
        if (vertex, uid) in self._dropped:
            return None
        self._dropped.add((vertex, uid))
        return SourceDropped(vertex, uid, batch_id, now)

    def _note_left_out(self, subtask: SubtaskId) -> None:
        """Cancel the pauses of the subtask for sources that its current plan already leaves out."""
        vertex = subtask.vertex
        for key in [key for key in self._waiting if key[0] == subtask and (vertex, key[1]) in self._dropped]:
            self.note_requested(Pause(subtask, DropSource(key[1])))

    def amended(self, plan: VertexPlan, subtask: SubtaskId) -> VertexPlan:
        return replace(plan, dropped=tuple(sorted(uid for owner, uid in self._dropped if owner == subtask.vertex)))
