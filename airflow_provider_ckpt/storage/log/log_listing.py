"""The content of an append log's folder, and the order in which it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """An entry of a log.

    Attributes:
        writer: a nonce, unique to one append.
        body: the JSON value of the entry.
        kept: True if the entry is below the head and was kept by a truncation.
        value: result of the log's ``parse`` for a body that was read.
    """

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
    """Numbers that are read together. ``pack`` is a pack that has all of them, or None."""

    numbers: range | tuple[int, ...]
    pack: Pack | None = None


@dataclass(frozen=True)
class Listing:
    """The result of one list of the folder."""

    head: int
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    head_records: tuple[int, ...]
    packs: tuple[Pack, ...] = ()

    @property
    def kept_below(self) -> tuple[int, ...]:
        """Return the kept entries below the head."""
        return tuple(number for number in self.kept if number < self.head)

    @property
    def end(self) -> int:
        """Return the number after the last entry."""
        return max((self.head, *(number + 1 for number in self.numbers)))

    def runs(self, *, skip_kept: bool, end: int) -> list[Run]:
        """Return what to read, in order: the kept entries below the head, then all up to ``end``.

        Each entry before ``end`` exists. A pack is used only for those, because a missing entry is damage even if a
        pack has it.
        """
        runs = [] if skip_kept else [Run(self.kept_below)]
        start = self.head
        for pack in sorted(self.packs):
            covered = range(max(start, pack.first), min(pack.last + 1, end))  # a foreign name may hold any number
            if covered:
                runs += [Run(range(start, covered.start)), Run(covered, pack)]
                start = covered.stop
        return [run for run in (*runs, Run(range(start, end))) if run.numbers]
