"""The sources with splits of one job: what their subtasks report, are handed out, and what a checkpoint covers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from airflow_provider_ckpt.coordinator.enumerator import Assignment, RestoredSplits, SplitEnumerator
from airflow_provider_ckpt.journal.events import SplitsAssigned, SplitsCovered, SplitsDone
from airflow_provider_ckpt.model.snapshot import Snapshot
from airflow_provider_ckpt.model.split import ranges
from airflow_provider_ckpt.model.subtask_id import SubtaskId


class _SplitSource:
    def __init__(self, uid: str, restored: RestoredSplits) -> None:
        self.uid, self.ids = uid, tuple(restored.ids)
        self.enumerator = SplitEnumerator(restored)
        self.places = {name: number for number, name in enumerate(self.ids)}
        self.uncovered = {
            number: where for number, where in restored.published.items() if number not in restored.covered
        }
        """Place -> subtask and position of its entry, of those that no completed checkpoint covers."""


class SplitSources:
    """A split is published by one entry, and belongs to the first checkpoint whose barrier lies behind that (R14)."""

    def __init__(self, restored: Mapping[str, RestoredSplits]) -> None:
        self._sources = {uid: _SplitSource(uid, one) for uid, one in restored.items()}
        self._opened: set[SubtaskId] = set()
        """Subtasks whose new attempt has not said yet what the one before had published."""

    def __len__(self) -> int:
        return len(self._sources)

    def is_open(self, uid: str) -> bool:
        """Whether some of its splits are not handed out. False for a source that was over when the epoch began."""
        source = self._sources.get(uid)
        return source is not None and source.enumerator.left > 0

    def unread(self, uid: str) -> int:
        """Splits that are not done; 0 of a source that was over when the epoch began."""
        source = self._sources.get(uid)
        return 0 if source is None else source.enumerator.left + source.enumerator.assigned

    def progress(self, uid: str) -> tuple[int, int, int]:
        """How many splits it has, are done, and are not handed out; of one that was over when the epoch began: none."""
        source = self._sources.get(uid)
        if source is None:
            return 0, 0, 0
        return len(source.ids), source.enumerator.done, source.enumerator.left

    @property
    def all_unread(self) -> dict[str, int]:
        """Of every source that has some."""
        return {uid: count for uid in self._sources if (count := self.unread(uid))}

    def may_read(self, subtask: SubtaskId) -> bool:
        """Whether it can be handed splits."""
        source = self._of(subtask)
        return source is not None and source.enumerator.may_read(subtask)

    def hold(self, uid: str) -> None:
        """Nobody comes to the end of the source until :meth:`retake`; nothing of one that is over."""
        if (source := self._sources.get(uid)) is not None:
            source.enumerator.hold()

    def let_go(self, uid: str) -> None:
        """It may come to its end as before."""
        if (source := self._sources.get(uid)) is not None:
            source.enumerator.let_go()

    def retake(self, uid: str, takers: Collection[SubtaskId]) -> None:
        """From here on these read the source."""
        self._sources[uid].enumerator.retake(takers)

    def opened(self, subtask: SubtaskId) -> None:
        """A new attempt has opened the log of a subtask, of any vertex. It tells which splits are in there before it
        says that it runs: until then nothing goes back, as a split may have been published and not reported."""
        if self._of(subtask) is not None:
            self._opened.add(subtask)

    def began(self, subtask: SubtaskId) -> None:
        """The subtask runs, or is at its end. If by a new attempt, what the one before had not published goes back."""
        if subtask in self._opened and (source := self._of(subtask)) is not None:
            self._opened.discard(subtask)
            source.enumerator.began(subtask)

    def reads_together(self, subtask: SubtaskId, count: int) -> None:
        """The subtask reads so many splits as one from here on."""
        if (source := self._of(subtask)) is not None:
            source.enumerator.reads_together(subtask, count)

    def completed(self, subtask: SubtaskId, splits: Iterable[str], position: int, now: float) -> SplitsDone | None:
        """What is to be journaled; None if all of it is known, or of splits that the source does not have."""
        source = self._of(subtask)
        if source is None:
            return None
        places = [source.places[name] for name in splits if name in source.places]
        news = [number for number in places if source.enumerator.completed(subtask, number)]
        source.uncovered.update(dict.fromkeys(news, (subtask, position)))
        return SplitsDone(source.uid, subtask, ranges(news), now) if news else None

    def returned(self, subtask: SubtaskId, splits: Iterable[str]) -> None:
        """The subtask's attempt gives back what it has not begun."""
        if (source := self._of(subtask)) is not None:
            source.enumerator.returned(subtask, [source.places[name] for name in splits if name in source.places])

    def due(self, running: Iterable[SubtaskId]) -> list[tuple[Assignment, tuple[str, ...]]]:
        """(assignment, the ids of its splits). ``running``: the subtasks of all vertices that run."""
        found = []
        by_source: dict[str, list[SubtaskId]] = {}
        for subtask in running:
            by_source.setdefault(subtask.vertex, []).append(subtask)
        for uid, source in self._sources.items():
            for one in source.enumerator.due(by_source.get(uid, ())):
                found.append((one, tuple(source.ids[number] for number in one.splits)))
        return found

    @staticmethod
    def assigned_event(assignment: Assignment, attempt: str, now: float) -> SplitsAssigned:
        source = assignment.subtask.vertex
        return SplitsAssigned(source, assignment.subtask, attempt, ranges(assignment.splits), now)

    def cover(self, checkpoint: int, snapshots: Mapping[SubtaskId, Snapshot]) -> Iterator[SplitsCovered]:
        """The checkpoint completes with these snapshots: what is to be journaled in one entry with that."""
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

    def _of(self, subtask: SubtaskId) -> _SplitSource | None:
        return self._sources.get(subtask.vertex)
