"""The state that a query keeps between micro-batches, and the detection of state that two versions would confuse.

Spark compares only the number, the kinds and the types of its state. While a query runs, its keys and streams must stay
the same. Between two runs a job's file may be corrected, for example by another column name or an added count. A
move of a key, result or stream to another place in the state is no correction, and the version is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY

T = TypeVar("T", str, tuple[str, ...])


@dataclass(frozen=True)
class KeptState:
    """The state of one Spark operator, described so that two versions of a query can be compared.

    Args:
        kind: Spark's name of the operator, such as ``Aggregate``.
        by: The keys of the state in order; for a join the equal expressions, left and right.
        sides: The names of the streams that each input of the operator reads. A join has two inputs.
        calls: The results of an aggregation, in the order of its state.
        bounds: Windows, gaps, time bounds, timeouts, and computed keys.
    """

    kind: str
    by: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]
    calls: tuple[str, ...] = ()
    bounds: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)

    @property
    def has_timers(self) -> bool:
        """True if the state may wait for timers of processing time, which fire only while the query runs."""
        return any(bound in ("timeout ProcessingTimeTimeout", "time mode ProcessingTime") for bound in self.bounds)

    def __str__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        calls = f" ({', '.join(self.calls)})" if self.calls else ""
        sides = f" of {' with '.join(' and '.join(side) for side in self.sides)}" if any(self.sides) else ""
        bounds = f" ({', '.join(self.bounds)})" if self.bounds else ""
        return f"{self.kind}{by}{calls}{sides}{bounds}"

    def fits(self, other: KeptState) -> bool:
        """Return True if a running query with this state can continue as a query with the state ``other``.

        A sum may become a sum of another expression. It must not become another existing sum.
        """
        before, after = ((state.kind, state.by, state.sides, state.bounds) for state in (self, other))
        return before == after and not _have_moved(self.calls, other.calls)

    def is_confused_with(self, other: KeptState) -> bool:
        """Return True if a query with the state ``other`` would wrongly read this state as its own."""
        if self.kind != other.kind or len(self.sides) != len(other.sides):
            return False  # Spark checks this itself
        if self.bounds != other.bounds:
            return True
        if _have_moved(self.by, other.by) or _have_moved(self.calls, other.calls):
            return True
        return _have_moved(self.sides, other.sides) or any(map(_are_different_streams, self.sides, other.sides))

    def only(self, streams: Collection[str]) -> KeptState:
        return replace(self, sides=tuple(tuple(uid for uid in side if uid in streams) for side in self.sides))


def confused_states(
    before: Sequence[KeptState], after: Sequence[KeptState], streams: Collection[str] | None = None
) -> tuple[KeptState, KeptState] | None:
    """Return the first (before, after) pair of states that Spark would confuse; None if there is no such pair.

    Both lists are in order from the query's output to its inputs. ``streams`` are the streams that exist in both
    versions, and other streams are ignored. None: no stream is ignored.
    """
    if len(before) != len(after):
        return None  # Spark checks this itself
    if streams is not None:
        before, after = ([state.only(streams) for state in states] for states in (before, after))
    moved = _have_moved([*map(str, before)], [*map(str, after)])
    return next(
        (
            (state_before, state_after)
            for state_before, state_after in zip(before, after, strict=True)
            if state_before.is_confused_with(state_after) or (moved and state_before != state_after)
        ),
        None,
    )


def _have_moved(before: Sequence[T], after: Sequence[T]) -> bool:
    """Return True if an item is in both lists at different places. False for lists of different lengths."""
    return len(before) == len(after) and any(before.index(item) != after.index(item) for item in {*before} & {*after})


def _are_different_streams(streams: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return True if neither side contains all streams of the other. Streams may be only added, or only left out."""
    return not ({*streams} <= {*others} or {*streams} >= {*others})
