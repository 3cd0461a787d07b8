"""Splits of a source, and sets of splits as ranges. A split is assigned, read and completed as a whole."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Range = tuple[int, int]
"""The first number and the number after the last."""
Ranges = tuple[Range, ...]
"""Ascending and separate ranges. Numbers are positions in the frozen list of a source, from 0."""


@dataclass(frozen=True)
class Split:
    """One split. ``id`` is its name in logs and messages. ``value`` is JSON and the argument of the source's
    function.
    """

    id: str
    value: Any


def ranges(numbers: Iterable[int]) -> Ranges:
    found: list[Range] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)


def union(one: Iterable[Range], other: Iterable[Range]) -> Ranges:
    """Return the union, in time proportional to the ranges. Adding a single range costs one copy."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(other) == 1:
        return _with(one, *other[0])
    found: list[Range] = []
    for start, end in sorted((*one, *other)):
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def _with(known: Ranges, start: int, end: int) -> Ranges:
    first = bisect.bisect_left(known, start, key=lambda one: one[1])
    behind = bisect.bisect_right(known, end, lo=first, key=lambda one: one[0])
    met = known[first:behind]
    if met:
        start, end = min(start, met[0][0]), max(end, met[-1][1])
    return (*known[:first], (start, end), *known[behind:])


def difference(one: Iterable[Range], other: Iterable[Range]) -> Ranges:
    """Return the numbers that are in ``one`` and not in ``other``, in time proportional to the ranges.

    Both must be ascending and separate.
    """
    found: list[Range] = []
    taken = list(other)
    for start, end in one:
        for first, behind in taken:
            if first < end and behind > start:
                if first > start:
                    found.append((start, first))
                start = behind
        if start < end:
            found.append((start, end))
    return tuple(found)


def is_in(of: Ranges, number: int) -> bool:
    last = bisect.bisect_right(of, number, key=lambda one: one[0]) - 1
    return last >= 0 and number < of[last][1]


def numbers(of: Iterable[Range]) -> set[int]:
    return {number for start, end in of for number in range(start, end)}


def size(of: Iterable[Range]) -> int:
    return sum(end - start for start, end in of)
