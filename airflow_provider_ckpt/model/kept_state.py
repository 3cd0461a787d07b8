"""What a query keeps from one micro-batch to the next, and when that of one version of it would be taken for another's.

Spark looks at the number, the kinds and the types of what is kept, and at nothing else. Of a query that runs the keys
and the streams have to be the same. Between two runs a job's file may be corrected: a column has another name, a stream
is added behind which rows are counted, another one takes the place of one that has ended. So there it is only what can
be no correction that is refused: what both have, at another place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from airflow_provider_ckpt.model.json_form import LATER

T = TypeVar("T", str, tuple[str, ...])


@dataclass(frozen=True)
class KeptState:
    """Of one operator of Spark's. ``by``: its keys, in their order; of a join, what has to be equal, left and right.
    ``sides``: the streams below it; of each side of a join. ``calls``: of an aggregation, what it works out, in the
    order in which that is kept. ``bounds``: windows, gaps, time bounds, timeouts, and keys that are worked out."""

    kind: str
    by: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]
    calls: tuple[str, ...] = ()
    bounds: tuple[str, ...] = field(default=(), metadata=LATER)

    @property
    def has_timers(self) -> bool:
        """Whether the state may wait for timers of processing time, which fire only while the query runs."""
        return any(one in ("timeout ProcessingTimeTimeout", "time mode ProcessingTime") for one in self.bounds)

    def __str__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        calls = f" ({', '.join(self.calls)})" if self.calls else ""
        of = f" of {' with '.join(' and '.join(side) for side in self.sides)}" if any(self.sides) else ""
        bounds = f" ({', '.join(self.bounds)})" if self.bounds else ""
        return f"{self.kind}{by}{calls}{of}{bounds}"

    def fits(self, other: KeptState) -> bool:
        """Whether what is kept here can be gone on with there, while the query runs. A sum may be one of something
        else from here on; it is no other one's."""
        mine, theirs = ((one.kind, one.by, one.sides, one.bounds) for one in (self, other))
        return mine == theirs and not _have_moved(self.calls, other.calls)

    def is_mistaken(self, other: KeptState) -> bool:
        """Whether what is kept here would be taken for what ``other``, in its place, keeps, and cannot be that."""
        if self.kind != other.kind or len(self.sides) != len(other.sides):
            return False  # left to Spark, which looks at that
        if self.bounds != other.bounds:
            return True
        if _have_moved(self.by, other.by) or _have_moved(self.calls, other.calls):
            return True
        return _have_moved(self.sides, other.sides) or any(map(_are_others, self.sides, other.sides))

    def only(self, streams: Collection[str]) -> KeptState:
        return replace(self, sides=tuple(tuple(uid for uid in side if uid in streams) for side in self.sides))


def mistaken(
    had: Sequence[KeptState], has: Sequence[KeptState], streams: Collection[str] | None = None
) -> tuple[KeptState, KeptState] | None:
    """The first that would be taken for another, and for which; from the output downwards. None if there is no such.
    ``streams``: those that are there before and after; None: all. What is gone, or new, says nothing about who has
    changed places."""
    if len(had) != len(has):
        return None  # left to Spark, which looks at that
    if streams is not None:
        had, has = ([one.only(streams) for one in each] for each in (had, has))
    moved = _have_moved([*map(str, had)], [*map(str, has)])
    return next(((a, b) for a, b in zip(had, has, strict=True) if a.is_mistaken(b) or (moved and a != b)), None)


def _have_moved(had: Sequence[T], has: Sequence[T]) -> bool:
    """Whether something is in both, and at another place. Another number is left to Spark."""
    return len(had) == len(has) and any(had.index(one) != has.index(one) for one in {*had} & {*has})


def _are_others(streams: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """One that was read to its end is left out, and one that was read elsewhere may be added."""
    return not ({*streams} <= {*others} or {*streams} >= {*others})
