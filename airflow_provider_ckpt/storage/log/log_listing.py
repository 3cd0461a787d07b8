"""Content of an append log's folder, and the order in which to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """An entry of a log.

    Attributes:
        writer: nonce that is unique to one append.
        body: the JSON value of the entry.
        kept: True if the entry is below the head, where truncations have kept it.
        value: result of the log's ``parse`` for a body that was read.
    """

    number: int
    writer: str
    body: Any
    kept: bool = False
    value: Any = None


@dataclass(frozen=True, order=True)
class Pack:
    """Copies of the entries ``first`` to ``last`` (inclusive), in one object."""

    first: int
    last: int


@dataclass(frozen=True)
class Run:
    """Numbers of entries that are read together. ``pack``: a pack with copies of all of them; None without one."""

    numbers: range | tuple[int, ...]
    pack: Pack | None = None


@dataclass(frozen=True)
class Listing:
    """Result of one list of a log's folder. The fields are entry numbers, except ``packs``.

    Attributes:
        kept: entries that the newest head record lists as kept.
        numbers: all listed entries, ascending.
        head_records: heads of all listed head records, ascending.
    """

    head: int
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    head_records: tuple[int, ...]
    packs: tuple[Pack, ...] = ()

    @property
    def kept_below(self) -> tuple[int, ...]:
        """Numbers of the kept entries below the head."""
        return tuple(number for number in self.kept if number < self.head)

    @property
    def end(self) -> int:
        """Number after the last entry; the head without an entry."""
        return max((self.head, *(number + 1 for number in self.numbers)))

    def runs(self, *, skip_kept: bool, end: int) -> list[Run]:
        """Return the entries to read, in order: kept entries below the head, then all up to ``end`` (exclusive).

        The caller must know that every entry before ``end`` exists. Packs are used only for these entries, because a
        missing entry is damage even if a pack has a copy.
        """
        runs = [] if skip_kept else [Run(self.kept_below)]
        start = self.head
        for pack in sorted(self.packs):
            covered = range(max(start, pack.first), min(pack.last + 1, end))  # a foreign name may hold any number
            if covered:
                runs += [Run(range(start, covered.start)), Run(covered, pack)]
                start = covered.stop
        return [run for run in (*runs, Run(range(start, end))) if run.numbers]
