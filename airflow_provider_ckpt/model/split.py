"""Splits of a source, and sets of splits as ranges. A split is assigned, read and completed as a whole."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Range = tuple[int, int]
"""A range of numbers: (first, last + 1)."""
Ranges = tuple[Range, ...]
"""Ascending and separate ranges. Numbers are places in a source's frozen list of splits, from 0."""


@dataclass(frozen=True)
class Split:
    """One split. ``id`` is its name in logs and messages. ``value`` is JSON, the argument of the source's function."""

    id: str
    value: Any


def ranges(numbers: Iterable[int]) -> Ranges:
    merged: list[Range] = []
    for number in sorted(set(numbers)):
        if merged and merged[-1][1] == number:
            merged[-1] = (merged[-1][0], number + 1)
        else:
            merged.append((number, number + 1))
    return tuple(merged)


def union(first: Iterable[Range], second: Iterable[Range]) -> Ranges:
    """Return the numbers that are in ``first`` or ``second``, as ascending and separate ranges."""
    if isinstance(first, tuple) and isinstance(second, tuple) and len(second) == 1:
        return _with_range(first, *second[0])
    merged: list[Range] = []
    for start, end in sorted((*first, *second)):
        if merged and merged[-1][1] >= start:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _with_range(ranges: Ranges, start: int, end: int) -> Ranges:
    first = bisect.bisect_left(ranges, start, key=lambda item: item[1])
    end_index = bisect.bisect_right(ranges, end, lo=first, key=lambda item: item[0])
    overlapping = ranges[first:end_index]
    if overlapping:
        start, end = min(start, overlapping[0][0]), max(end, overlapping[-1][1])
    return (*ranges[:first], (start, end), *ranges[end_index:])


def difference(first: Iterable[Range], second: Iterable[Range]) -> Ranges:
    """Return the numbers of ``first`` that are not in ``second``. Each must have ascending and separate ranges."""
    remaining: list[Range] = []
    cuts = list(second)
    for start, end in first:
        for cut_start, cut_end in cuts:
            if cut_start < end and cut_end > start:
                if cut_start > start:
                    remaining.append((start, cut_start))
                start = cut_end
        if start < end:
            remaining.append((start, end))
    return tuple(remaining)


def is_in(ranges: Ranges, number: int) -> bool:
    last = bisect.bisect_right(ranges, number, key=lambda item: item[0]) - 1
    return last >= 0 and number < ranges[last][1]


def numbers(ranges: Iterable[Range]) -> set[int]:
    return {number for start, end in ranges for number in range(start, end)}


def size(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)
