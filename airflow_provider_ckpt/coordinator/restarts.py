"""Planned restarts: an ended source is dropped from a running query, one at a time (R2, R20)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_ckpt.job.graph import ExecutionGraph


class SourceDrops:
    """Which sources ended, which wait to be dropped, which one is being dropped.

    A source has ended when every subtask of its vertex read it to its end, or ended itself. The drop
    is in the journal before the first of them goes on without it.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        ended: Mapping[str, Collection[str]],
        dropped: Mapping[str, Collection[str]],
    ) -> None:
        self._parallelism = {vertex.uid: vertex.parallelism for vertex in graph.vertices}
        self._ended = {(vertex, uid) for vertex, uids in ended.items() for uid in uids}
        self._dropped = {(vertex, uid) for vertex, uids in dropped.items() for uid in uids}
        self._reports: dict[tuple[str, str], dict[str, int]] = {}
        self._gone: dict[str, set[str]] = {}
        self._waiting: dict[tuple[str, str], None] = {}
        self.current: tuple[str, str] | None = None
        """(subtask, uid) of the restart in progress."""
        self.current_is_durable = False
        """The drop is in the journal; the query may start again."""

    @property
    def all_ended(self) -> frozenset[tuple[str, str]]:
        """(vertex, uid) of every source known to be at its end, dropped ones included."""
        return frozenset(self._ended | self._dropped)

    @property
    def waiting(self) -> tuple[tuple[str, str], ...]:
        """(subtask, uid) to be dropped, oldest first; only of sources that ended as a whole."""
        return tuple(drop for drop in self._waiting if (_vertex(drop[0]), drop[1]) in self.all_ended)

    def report(self, subtask: str, uid: str, batch_id: int, droppable: bool) -> list[tuple[str, int]]:
        """The subtask read the source to its end. Returns what is news: [(uid, batch id)] if with this
        the source ended as a whole."""
        vertex = _vertex(subtask)
        self._reports.setdefault((vertex, uid), {})[subtask] = batch_id
        if droppable and self.current != (subtask, uid) and (vertex, uid) not in self._dropped:
            self._waiting[(subtask, uid)] = None
        return self._news(vertex)

    def subtask_ended(self, subtask: str) -> list[tuple[str, int]]:
        """The query of the subtask ended by itself: nothing to drop there any more. Returns the news."""
        vertex = _vertex(subtask)
        self._gone.setdefault(vertex, set()).add(subtask)
        self._waiting = {drop: None for drop in self._waiting if drop[0] != subtask}
        if self.current is not None and self.current[0] == subtask:
            self.finish()
        return self._news(vertex)

    def begin(self, subtask: str, uid: str) -> None:
        del self._waiting[(subtask, uid)]
        self.current, self.current_is_durable = (subtask, uid), False

    def stopped(self, vertex: str, uid: str) -> bool:
        """The query of the current restart stands still. True if the drop is not in the journal yet."""
        self.current_is_durable = True
        news = (vertex, uid) not in self._dropped
        self._dropped.add((vertex, uid))
        return news

    def finish(self) -> None:
        self.current, self.current_is_durable = None, False

    def _news(self, vertex: str) -> list[tuple[str, int]]:
        news = []
        for (owner, uid), reports in self._reports.items():
            if owner == vertex and (vertex, uid) not in self._ended | self._dropped:
                gone = self._gone.get(vertex, set())
                if len(gone.union(reports)) == self._parallelism[vertex]:
                    self._ended.add((vertex, uid))
                    news.append((uid, max(reports.values())))
        return news


def _vertex(subtask: str) -> str:
    return subtask.rpartition("/")[0]
