"""What a query keeps from one micro-batch to the next, and when that of one version of it would be taken for another's.

Spark looks at the number, the kinds and the types of what is kept, and at nothing else. Of a query that runs everything
has to be the same. Between two runs a job's file may be corrected: a column has another name, a stream is added behind
which rows are counted. So there it is only what can be no correction that is refused: the same things in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", str, tuple[str, ...])


@dataclass(frozen=True)
class KeptState:
    """Of one operator of Spark's. ``by``: the names of its keys and columns, in their order; of a join, what has to be
    equal. ``sides``: the streams below it; of each side of a join."""

    kind: str
    by: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        of = f" of {' with '.join(' and '.join(side) for side in self.sides)}" if any(self.sides) else ""
        return f"{self.kind}{by}{of}"

    def is_mistaken(self, other: KeptState) -> bool:
        """Whether what is kept here would be taken for what ``other``, in its place, keeps, and cannot be that."""
        if self.kind != other.kind or len(self.sides) != len(other.sides):
            return False  # Spark refuses it by itself
        turned = _is_in_another_order(self.by, other.by) or _is_in_another_order(self.sides, other.sides)
        return turned or any(map(_are_others, self.sides, other.sides))


def mistaken(had: Sequence[KeptState], has: Sequence[KeptState]) -> tuple[KeptState, KeptState] | None:
    """The first that would be taken for another, and for which; from the output downwards. None if there is no such."""
    if len(had) != len(has):
        return None  # Spark refuses it by itself
    turned = _is_in_another_order([*map(str, had)], [*map(str, has)])
    return next(((a, b) for a, b in zip(had, has, strict=True) if a.is_mistaken(b) or (turned and a != b)), None)


def _is_in_another_order(had: Sequence[T], has: Sequence[T]) -> bool:
    return had != has and sorted(had) == sorted(has)


def _are_others(streams: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """One that was read to its end is left out, and one may be added."""
    return not ({*streams} <= {*others} or {*streams} >= {*others})
