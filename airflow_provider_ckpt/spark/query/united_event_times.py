"""Event time of the inputs of a union: all inputs must have a watermark on the same column, or none may have one.

Spark takes the event time of a union from the first input. If only some inputs had it, the order of the inputs would
decide whether windows close. That could change when an ended input is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, TimestampType

from airflow_provider_ckpt.spark.query.analysed_plan import (
    analysed,
    children_of,
    each,
    nodes_from,
    stateful_nodes,
    streams_below,
)
from airflow_provider_ckpt.spark.query.event_time import MARK

_WITHOUT_KEYS = frozenset({"GlobalLimit", "LocalLimit"})


@dataclass(frozen=True)
class UnlikeEventTimes:
    """A union in which only some inputs have event time in ``column``.

    ``having`` and ``lacking`` are the names of the streams below the inputs with and without event time.
    """

    column: str
    having: tuple[str, ...]
    lacking: tuple[str, ...]


def with_event_time_of_others(
    frames: Mapping[str, DataFrame], may_get: Callable[[str], bool]
) -> Mapping[str, DataFrame]:
    """Return the inputs of a union, with the watermark added to inputs that lack it.

    All inputs that already have a watermark must agree on one column and one delay. Otherwise nothing is added. An
    input gets the watermark only if ``may_get`` returns True for its uid, and if it has this column as a TIMESTAMP.
    """
    marks = {uid: _marks(frame.schema) for uid, frame in frames.items()}
    times = {mark for mark in marks.values() if mark}
    if len(times) != 1 or all(marks.values()):
        return frames
    (event_time,) = times
    if len(event_time) != 1:
        return frames
    ((column, delay),) = event_time
    return {
        uid: frame.withWatermark(column, f"{delay} milliseconds")
        if not marks[uid] and _has_time(frame, column) and may_get(uid)
        else frame
        for uid, frame in frames.items()
    }


def _marks(schema: StructType) -> tuple[tuple[str, int], ...]:
    fields = [(field.name, (field.metadata or {}).get(MARK)) for field in schema.fields]
    return tuple((name, int(delay)) for name, delay in fields if delay is not None)


def _has_time(frame: DataFrame, column: str) -> bool:
    return any(field.name == column and isinstance(field.dataType, TimestampType) for field in frame.schema.fields)


def unlike_event_times(frame: DataFrame) -> UnlikeEventTimes | None:
    """Return the first union of streams in which only some inputs have event time; None if there is no such union."""
    for node in nodes_from(analysed(frame)):
        if node.nodeName() == "Union" and node.isStreaming():
            children = children_of(node)
            for columns in zip(*(each(child.output()) for child in children), strict=True):
                marked = [_is_marked(column) for column in columns]
                if any(marked) and not all(marked):
                    with_time, without_time = (
                        sorted({uid for child, is_marked in zip(children, marked, strict=True) if is_marked is has_mark
                                for uid in streams_below(child)})
                        for has_mark in (True, False)
                    )  # fmt: skip
                    name = str(columns[marked.index(True)].name())
                    return UnlikeEventTimes(name, tuple(with_time), tuple(without_time))
    return None


def uses_event_time(frame: DataFrame) -> tuple[bool, ...]:
    """Return a flag for each stateful node of the plan, output first: True if its result depends on event time."""
    return tuple(any(map(_is_marked, _decisive(node))) for node in stateful_nodes(frame))


def _decisive(node: Any) -> Iterator[Any]:
    """Yield the columns of a stateful node that matter: if any has event time, its result depends on event time."""
    kind = node.nodeName()
    if kind == "Aggregate":
        for key in each(node.groupingExpressions()):
            yield from each(key.references().toSeq())
    elif kind == "Deduplicate":
        yield from each(node.keys())
    elif kind == "Join":
        if node.condition().isDefined():
            yield from each(node.condition().get().references().toSeq())
    elif kind not in _WITHOUT_KEYS and _may_time_out(node):
        for child in children_of(node):
            yield from each(child.output())


def _may_time_out(node: Any) -> bool:
    """Return False if ``node`` is a stateful function without event-time timers; otherwise True.

    For such a function, Spark drops no late rows.
    """
    for member in ("timeout", "timeMode"):
        with suppress(Py4JError):
            return "EventTime" in str(getattr(node, member)().toString())
    return True


def _is_marked(column: Any) -> bool:
    return bool(column.metadata().contains(MARK))
