"""A splitter for long lists in statements. A sink that a gate has held for long asks for any number of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST = 900
"""Values in one statement. SQLite before 3.32 takes 999 parameters.

900 handles are far below MySQL's smallest ``max_allowed_packet``.
"""


def portions(texts: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(texts), MOST):
        yield list(texts[at : at + MOST])
