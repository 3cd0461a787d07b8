"""What an append log's folder shows, and in which order it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """``writer`` is a nonce, unique to one append. ``kept``: it lies below the head, which jumped over it. ``value``:
    what the log's ``parse`` makes of the body of an entry that was read."""

    number: int
    writer: str
    body: Any
    kept: bool = False
    value: Any = None


@dataclass(frozen=True, order=True)
class Pack:
    """Copies of the entries ``first`` to ``last``, both included, in one object."""

    first: int
    last: int


@dataclass(frozen=True)
class Run:
    """Numbers that are read in one go. ``pack``: that has them all."""

    numbers: range | tuple[int, ...]
    pack: Pack | None = None


@dataclass(frozen=True)
class Listing:
    """What one list of the folder shows."""

    head: int
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    head_records: tuple[int, ...]
    packs: tuple[Pack, ...] = ()

    @property
    def kept_below(self) -> tuple[int, ...]:
        """The kept entries that lie below the head."""
        return tuple(number for number in self.kept if number < self.head)

    @property
    def end(self) -> int:
        """The number after the last entry."""
        return max((self.head, *(number + 1 for number in self.numbers)))

    def runs(self, *, skip_kept: bool, end: int) -> list[Run]:
        """Return what there is to read, in order: the kept entries below the head, and all from there on up to ``end``.

        Each entry before ``end`` exists. So a pack is used for those that it has: an entry that is gone is damage,
        though a pack has it. The last entries of a pack may be others by now (:meth:`.LogFiles.read_pack`).
        """
        found = [] if skip_kept else [Run(self.kept_below)]
        at = self.head
        for pack in sorted(self.packs):
            covered = range(max(at, pack.first), min(pack.last + 1, end))  # a foreign name may hold any number
            if covered:
                found += [Run(range(at, covered.start)), Run(covered, pack)]
                at = covered.stop
        return [run for run in (*found, Run(range(at, end))) if run.numbers]
