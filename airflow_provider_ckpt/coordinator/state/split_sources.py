"""The sources with splits of one job: reports about splits, assignments, and the splits that a checkpoint covers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from airflow_provider_ckpt.coordinator.state.enumerator import Assignment, RestoredSplits, SplitEnumerator
from airflow_provider_ckpt.journal.events import SplitsAssigned, SplitsCovered, SplitsDone
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.split import ranges


class _SplitSource:
    def __init__(self, uid: str, restored: RestoredSplits) -> None:
        self.uid, self.ids = uid, tuple(restored.ids)
        self.enumerator = SplitEnumerator(restored)
        self.places = {name: number for number, name in enumerate(self.ids)}
        self.uncovered = {
            number: where for number, where in restored.published.items() if number not in restored.covered
        }
        """Place → (subtask, position of its log entry), for published splits that no completed checkpoint covers."""


class SplitSources:
    """All sources with splits. A split belongs to the first checkpoint whose barrier follows its log entry (R14)."""

    def __init__(self, restored: Mapping[str, RestoredSplits]) -> None:
        self._sources = {uid: _SplitSource(uid, splits) for uid, splits in restored.items()}
        self._opened: set[SubtaskId] = set()
        """Subtasks whose new attempt has still to report which splits the previous attempt had published."""

    def __len__(self) -> int:
        return len(self._sources)

    def is_open(self, uid: str) -> bool:
        """Return whether any split of the source is unassigned. False for a source that ended before this epoch."""
        source = self._sources.get(uid)
        return source is not None and source.enumerator.unassigned > 0

    def unread(self, uid: str) -> int:
        """Return the number of splits that are not done. 0 for a source that ended before this epoch."""
        source = self._sources.get(uid)
        return 0 if source is None else source.enumerator.unassigned + source.enumerator.assigned

    def progress(self, uid: str) -> tuple[int, int, int]:
        """Return how many splits the source has: (all, done, unassigned). (0, 0, 0) if it ended before this epoch."""
        source = self._sources.get(uid)
        if source is None:
            return 0, 0, 0
        return len(source.ids), source.enumerator.done, source.enumerator.unassigned

    @property
    def all_unread(self) -> dict[str, int]:
        """Return source → number of its unread splits, for sources with unread splits."""
        return {uid: count for uid in self._sources if (count := self.unread(uid))}

    def may_read(self, subtask: SubtaskId) -> bool:
        """Return whether splits can be assigned to the subtask. False for a subtask without splits to read."""
        source = self._source(subtask)
        return source is not None and source.enumerator.may_read(subtask)

    def keep_open(self, uid: str) -> None:
        """Prevent the readers of the source from ending until :meth:`reassign` or :meth:`allow_end`."""
        if (source := self._sources.get(uid)) is not None:
            source.enumerator.keep_open()

    def allow_end(self, uid: str) -> None:
        """Allow the readers of the source to end again."""
        if (source := self._sources.get(uid)) is not None:
            source.enumerator.allow_end()

    def reassign(self, uid: str, readers: Collection[SubtaskId]) -> None:
        """Assign the remaining splits of the source to ``readers`` only."""
        self._sources[uid].enumerator.reassign(readers)

    def opened(self, subtask: SubtaskId) -> None:
        """Record that a new attempt has opened the subtask's log. Do nothing for a subtask without splits.

        The attempt first reports the splits that its log shows as published. No split is unassigned before that.
        """
        if self._source(subtask) is not None:
            self._opened.add(subtask)

    def began(self, subtask: SubtaskId) -> None:
        """Record that the subtask runs, or is at its end. Unassign the unpublished splits of its previous attempt."""
        if subtask in self._opened and (source := self._source(subtask)) is not None:
            self._opened.discard(subtask)
            source.enumerator.began(subtask)

    def reads_together(self, subtask: SubtaskId, count: int) -> None:
        """Record that the subtask now reads ``count`` splits together."""
        if (source := self._source(subtask)) is not None:
            source.enumerator.reads_together(subtask, count)

    def completed(self, subtask: SubtaskId, splits: Iterable[str], position: int, now: float) -> SplitsDone | None:
        """Record published splits. Return the event to journal; None if no known split is new."""
        source = self._source(subtask)
        if source is None:
            return None
        numbers = [source.places[name] for name in splits if name in source.places]
        new = [number for number in numbers if source.enumerator.completed(subtask, number)]
        source.uncovered.update(dict.fromkeys(new, (subtask, position)))
        return SplitsDone(source.uid, subtask, ranges(new), now) if new else None

    def returned(self, subtask: SubtaskId, splits: Iterable[str]) -> None:
        """Record that the subtask's attempt returns splits that it has not begun."""
        if (source := self._source(subtask)) is not None:
            source.enumerator.returned(subtask, [source.places[name] for name in splits if name in source.places])

    def due(self, running: Iterable[SubtaskId]) -> list[tuple[Assignment, tuple[str, ...]]]:
        """Return (assignment, ids of its splits) for each assignment that the ``running`` subtasks must get now."""
        assignments = []
        by_source: dict[str, list[SubtaskId]] = {}
        for subtask in running:
            by_source.setdefault(subtask.vertex, []).append(subtask)
        for uid, source in self._sources.items():
            for assignment in source.enumerator.due(by_source.get(uid, ())):
                assignments.append((assignment, tuple(source.ids[number] for number in assignment.splits)))
        return assignments

    @staticmethod
    def assigned_event(assignment: Assignment, attempt: str, now: float) -> SplitsAssigned:
        source = assignment.subtask.vertex
        return SplitsAssigned(source, assignment.subtask, attempt, ranges(assignment.splits), now)

    def cover(self, checkpoint: int, snapshots: Mapping[SubtaskId, Snapshot]) -> Iterator[SplitsCovered]:
        """Yield an event for each source with the splits that ``checkpoint`` is the first to include. Forget these."""
        for uid, source in self._sources.items():
            covered = [
                number
                for number, (subtask, position) in source.uncovered.items()
                if (snapshot := snapshots.get(subtask)) is not None
                and (position < snapshot.position or snapshot.finished_on_restore)
            ]
            for number in covered:
                del source.uncovered[number]
            if covered:
                yield SplitsCovered(uid, checkpoint, ranges(covered))

    def _source(self, subtask: SubtaskId) -> _SplitSource | None:
        return self._sources.get(subtask.vertex)
