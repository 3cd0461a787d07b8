"""Who reads which split of a source (Flink: SplitEnumerator). No threads, no clock, no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.subtask_id import SubtaskId

AHEAD = 4
"""Splits that a subtask has at most, the one that it reads included: it need not wait for the next one to be handed
out, and several go into one entry of the journal. Of one that reads small ones together so many times as many."""
LOW = 1
"""So many or fewer, and it is handed out more. One that reads several together has them for the next two times: it may
read twice as many then."""
_LEAST = 4
"""Of what a subtask reads together, which takes a few seconds, a share of this is not shared out further."""


@dataclass(frozen=True)
class RestoredSplits:
    """A source with splits, as the journal and the logs tell of it. ``ids``: of its splits, in the frozen order;
    ``covered``: places in it that the last completed checkpoint covers; ``published``: place -> the subtask and the
    position of its entry, of those that are in a live log. ``takers``: the subtasks that read what is left.
    ``assigned``: handed out, of the subtasks whose attempts live on under another JobMaster: it goes back when their
    next ones begin, and not before (W13). ``ended``: subtasks whose logs have their ends, be it in the journal or not:
    nothing can be handed out to them, and all that they have published is in ``published``."""

    ids: Sequence[str]
    takers: Collection[SubtaskId]
    covered: Collection[int] = ()
    published: Mapping[int, tuple[SubtaskId, int]] = field(default_factory=dict)
    assigned: Mapping[SubtaskId, Collection[int]] = field(default_factory=dict)
    ended: Collection[SubtaskId] = ()


@dataclass(frozen=True)
class Assignment:
    """``splits``: places in the frozen list. ``is_last``: nothing else will be handed out to the subtask's attempt."""

    subtask: SubtaskId
    splits: tuple[int, ...]
    is_last: bool


class SplitEnumerator:
    """Of one source. A split is unassigned, assigned to a subtask's current attempt, or done: one of these (R14)."""

    def __init__(self, restored: RestoredSplits) -> None:
        self._takers = frozenset(restored.takers)
        self._done = {*restored.covered, *restored.published}
        self._assigned: dict[SubtaskId, dict[int, None]] = {
            subtask: dict.fromkeys(number for number in numbers if number not in self._done)
            for subtask, numbers in restored.assigned.items()
            if subtask not in restored.ended  # what it has not published it gave back, which nobody journals
        }
        held = {number for numbers in self._assigned.values() for number in numbers}
        self._left = [number for number in range(len(restored.ids)) if number not in self._done | held]
        """A heap: what goes back comes first again."""
        self._together: dict[SubtaskId, int] = {}
        """As many as a subtask reads as one, if it is more than one."""
        self._told_last = set(restored.ended)
        self._is_held = False

    @property
    def done(self) -> int:
        return len(self._done)

    @property
    def left(self) -> int:
        """Neither done nor assigned."""
        return len(self._left)

    @property
    def assigned(self) -> int:
        return sum(len(one) for one in self._assigned.values())

    def may_read(self, subtask: SubtaskId) -> bool:
        """False: it was told that nothing else will be handed out to it."""
        return subtask not in self._told_last

    def hold(self) -> None:
        """None of those that read is told that nothing else comes, until :meth:`retake`: more of them are to begin, and
        who reads from them must not find all of them at their end before that."""
        self._is_held = True

    def let_go(self) -> None:
        """What :meth:`hold` was for does not come."""
        self._is_held = False

    def retake(self, takers: Collection[SubtaskId]) -> None:
        """What is left is for these; any other is told so when it has read what it was handed."""
        self._takers, self._is_held = frozenset(takers), False

    def began(self, subtask: SubtaskId) -> None:
        """A new attempt of the subtask runs: nothing is handed out to it, and what the one before had goes back."""
        for number in self._assigned.pop(subtask, {}):
            heapq.heappush(self._left, number)
        self._together.pop(subtask, None)
        self._told_last.discard(subtask)

    def reads_together(self, subtask: SubtaskId, count: int) -> None:
        """The subtask's attempt reads so many as one from here on."""
        self._together[subtask] = max(1, count)

    def returned(self, subtask: SubtaskId, numbers: Iterable[int]) -> None:
        """The subtask's attempt has not begun these, and does not read them unless they are handed out to it anew."""
        for number in numbers:
            if number in self._assigned.get(subtask, {}):
                del self._assigned[subtask][number]
                heapq.heappush(self._left, number)

    def completed(self, subtask: SubtaskId, number: int) -> bool:
        """The entry of the split is in the log of the subtask. False if that was known."""
        self._assigned.get(subtask, {}).pop(number, None)
        if number in self._done:
            return False
        self._done.add(number)
        return True

    def due(self, running: Iterable[SubtaskId]) -> list[Assignment]:
        """What is handed out now. ``running``: the subtasks that can take splits. Those that have none at all come
        first; towards the end each gets its share and no more, so that none waits for another's queue."""
        reading = [name for name in running if name not in self._told_last]
        asking = [name for name in reading if self._has(name) <= self._low(name)]
        is_taken = not self._takers.isdisjoint(reading)
        found = []
        for subtask in sorted(asking, key=self._has):
            assignment = self._for(subtask, is_taken=is_taken)
            if assignment.splits or assignment.is_last:
                found.append(assignment)
        return found

    def _has(self, subtask: SubtaskId) -> int:
        return len(self._assigned.get(subtask, ()))

    def _for(self, subtask: SubtaskId, *, is_taken: bool) -> Assignment:
        """``is_taken``: one of the takers runs, and can be handed what is left. Any that does not may have come to its
        end unheard, and whoever has failed may have to take back what it had: else nobody would be left to read it."""
        if subtask not in self._takers and is_taken:
            if self._is_held or self._has(subtask) > AHEAD:  # so many may come back, be it unheard: not its last words
                return Assignment(subtask, (), is_last=False)
            self._told_last.add(subtask)
            return Assignment(subtask, (), is_last=True)
        together = self._together.get(subtask, 1)
        fair, least = self._fair_share(), -(-together // _LEAST)
        wanted = min(AHEAD * together - self._has(subtask), max(fair, least), len(self._left))
        if self._has(subtask) and fair <= least:
            wanted = 0  # the last ones go to whoever has nothing to read
        taken = tuple(heapq.heappop(self._left) for _ in range(wanted))
        self._assigned.setdefault(subtask, {}).update(dict.fromkeys(taken))
        is_last = not self._left and not self._has(subtask) and not self._is_held and not self._may_return()
        if is_last:
            self._told_last.add(subtask)
        return Assignment(subtask, taken, is_last)

    def _low(self, subtask: SubtaskId) -> int:
        together = self._together.get(subtask, 1)
        return LOW if together == 1 else max(LOW, min(2 * together, self._fair_share()))

    def _fair_share(self) -> int:
        """Half of what each would get if all that is left were handed out."""
        return len(self._left) // (2 * max(1, len(self._takers)))

    def _may_return(self) -> bool:
        """Somebody was handed so many that some of them may come back: whoever has nothing waits for that."""
        return any(len(one) > AHEAD for one in self._assigned.values())
