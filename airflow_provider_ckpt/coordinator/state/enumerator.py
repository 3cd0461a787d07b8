"""The assignment of a source's splits to subtasks (Flink: SplitEnumerator). It has no threads, no clock and no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.ids import SubtaskId

AHEAD = 4
"""Maximum splits that are assigned to a subtask at a time, including the split that it reads.

With several splits, the subtask need not wait for its next assignment. One journal entry also assigns several
splits. The limit is n times as high for a subtask that reads n small splits together.
"""
LOW = 1
"""A subtask gets more splits when it has this many or fewer. If it reads n splits together, the limit is up to 2n."""
_LEAST = 4
"""A subtask that reads n splits together gets at least n / ``_LEAST`` at a time: work for a few seconds."""


@dataclass(frozen=True)
class RestoredSplits:
    """The state of a source with splits, from the journal and the logs.

    Attributes:
        ids: ids of the splits, in the frozen order. A place is an index into this list.
        readers: the subtasks that read the remaining splits.
        covered: places of the splits whose rows belong to the last completed checkpoint or an earlier one.
        published: place → (subtask, position of its log entry), for splits whose log entries still exist.
        assigned: subtask → places assigned to its attempt, if the attempt survived a change of the JobMaster. These
            places become unassigned only when the next attempt begins (W13).
        ended: subtasks whose logs have the end of data. They get no splits, and ``published`` has all their splits.
    """

    ids: Sequence[str]
    readers: Collection[SubtaskId]
    covered: Collection[int] = ()
    published: Mapping[int, tuple[SubtaskId, int]] = field(default_factory=dict)
    assigned: Mapping[SubtaskId, Collection[int]] = field(default_factory=dict)
    ended: Collection[SubtaskId] = ()


@dataclass(frozen=True)
class Assignment:
    """The splits that a subtask must read next, as places in the frozen list. ``is_last``: True if no splits follow."""

    subtask: SubtaskId
    splits: tuple[int, ...]
    is_last: bool


class SplitEnumerator:
    """The splits of one source. Each split is unassigned, assigned to a subtask's current attempt, or done (R14)."""

    def __init__(self, restored: RestoredSplits) -> None:
        self._readers = frozenset(restored.readers)
        self._done = {*restored.covered, *restored.published}
        self._assigned: dict[SubtaskId, dict[int, None]] = {
            subtask: dict.fromkeys(number for number in numbers if number not in self._done)
            for subtask, numbers in restored.assigned.items()
            if subtask not in restored.ended  # unpublished splits were returned, and returns are not journaled
        }
        assigned = {number for numbers in self._assigned.values() for number in numbers}
        self._unassigned = [number for number in range(len(restored.ids)) if number not in self._done | assigned]
        """Unassigned places, as a heap: the lowest place is assigned first, so that returned splits come early."""
        self._together: dict[SubtaskId, int] = {}
        """Subtask → number of splits that it reads together, if that is more than one."""
        self._had_last = set(restored.ended)
        self._kept_open = False

    @property
    def done(self) -> int:
        return len(self._done)

    @property
    def unassigned(self) -> int:
        """Return how many splits are neither done nor assigned."""
        return len(self._unassigned)

    @property
    def assigned(self) -> int:
        return sum(len(numbers) for numbers in self._assigned.values())

    def may_read(self, subtask: SubtaskId) -> bool:
        """Return whether splits can still be assigned to the subtask. False after its last assignment."""
        return subtask not in self._had_last

    def keep_open(self) -> None:
        """Prevent the readers of the source from ending until :meth:`reassign` or :meth:`allow_end`."""
        self._kept_open = True

    def allow_end(self) -> None:
        """Allow the readers of the source to end again."""
        self._kept_open = False

    def reassign(self, readers: Collection[SubtaskId]) -> None:
        """Assign the remaining splits to ``readers`` only. Any other subtask ends after its assigned splits."""
        self._readers, self._kept_open = frozenset(readers), False

    def began(self, subtask: SubtaskId) -> None:
        """Unassign unread splits of the subtask's previous attempt, because the next attempt runs."""
        for number in self._assigned.pop(subtask, {}):
            heapq.heappush(self._unassigned, number)
        self._together.pop(subtask, None)
        self._had_last.discard(subtask)

    def reads_together(self, subtask: SubtaskId, count: int) -> None:
        """Record that the subtask's attempt now reads ``count`` splits together."""
        self._together[subtask] = max(1, count)

    def returned(self, subtask: SubtaskId, numbers: Iterable[int]) -> None:
        """Unassign splits that the subtask has returned before it began to read them."""
        for number in numbers:
            if number in self._assigned.get(subtask, {}):
                del self._assigned[subtask][number]
                heapq.heappush(self._unassigned, number)

    def completed(self, subtask: SubtaskId, number: int) -> bool:
        """Record that the subtask's log has the entry of split ``number``. Return False if it was done before."""
        self._assigned.get(subtask, {}).pop(number, None)
        if number in self._done:
            return False
        self._done.add(number)
        return True

    def due(self, running: Iterable[SubtaskId]) -> list[Assignment]:
        """Return the assignments to make now to the subtasks in ``running``.

        Subtasks without splits come first. Near the end each subtask gets only its share. Then no subtask is idle
        while another subtask has waiting splits.
        """
        reading = [subtask for subtask in running if subtask not in self._had_last]
        needing = [subtask for subtask in reading if self._count(subtask) <= self._threshold(subtask)]
        reader_runs = not self._readers.isdisjoint(reading)
        assignments = []
        for subtask in sorted(needing, key=self._count):
            assignment = self._assign(subtask, reader_runs=reader_runs)
            if assignment.splits or assignment.is_last:
                assignments.append(assignment)
        return assignments

    def _count(self, subtask: SubtaskId) -> int:
        return len(self._assigned.get(subtask, ()))

    def _assign(self, subtask: SubtaskId, *, reader_runs: bool) -> Assignment:
        """Return the next assignment of a subtask.

        A subtask that is no longer a reader may end only if a reader runs (``reader_runs``). Otherwise all readers may
        have ended, and no subtask would read the splits that a failed subtask returns later.
        """
        if subtask not in self._readers and reader_runs:
            if self._kept_open or self._count(subtask) > AHEAD:  # it may still return splits
                return Assignment(subtask, (), is_last=False)
            self._had_last.add(subtask)
            return Assignment(subtask, (), is_last=True)
        together = self._together.get(subtask, 1)
        fair, least = self._fair_share(), -(-together // _LEAST)
        count = min(AHEAD * together - self._count(subtask), max(fair, least), len(self._unassigned))
        if self._count(subtask) and fair <= least:
            count = 0  # the last splits go to subtasks that have none
        numbers = tuple(heapq.heappop(self._unassigned) for _ in range(count))
        self._assigned.setdefault(subtask, {}).update(dict.fromkeys(numbers))
        is_last = not self._unassigned and not self._count(subtask) and not self._kept_open and not self._may_return()
        if is_last:
            self._had_last.add(subtask)
        return Assignment(subtask, numbers, is_last)

    def _threshold(self, subtask: SubtaskId) -> int:
        together = self._together.get(subtask, 1)
        return LOW if together == 1 else max(LOW, min(2 * together, self._fair_share()))

    def _fair_share(self) -> int:
        return len(self._unassigned) // (2 * max(1, len(self._readers)))

    def _may_return(self) -> bool:
        """Return whether any subtask has more than AHEAD splits. It may return some, for subtasks without splits."""
        return any(len(numbers) > AHEAD for numbers in self._assigned.values())
