"""The addition of counts by name."""

from __future__ import annotations

from collections.abc import Mapping


def added(*counts: Mapping[str, int]) -> dict[str, int]:
    """Return name → sum of the numbers that the ``counts`` have for this name, sorted by name."""
    total: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items()))
