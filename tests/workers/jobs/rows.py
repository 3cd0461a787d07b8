"""Rows of the job's sources."""

from __future__ import annotations

ROWS = 20
"""Rows of one split."""
FIRST = {"history": 0, "archive": 1_000_000}
FIRST_LIVE = 9_000_000


def of_split(source: str, number: int) -> range:
    first = FIRST[source] + number * ROWS
    return range(first, first + ROWS)
