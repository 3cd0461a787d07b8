"""Event time of a query's inputs: which rows move the watermark, and counts of the rows that do not.

A bounded input is read in the order of modification times. A compaction, a restore or a synchronised bucket changes
these times, and rows of history would be late. So a bounded input holds back the watermark until the input ends, unless
the user declares it ``in_order``. After its end, the query leaves it out, and live rows move the watermark (R13).

A row that is far ahead of the clock must not move the watermark, because it would make all later rows late. So Spark's
watermark is set on a column that this package adds, and such a row has the time 1970 there. The user's column keeps
Spark's mark, so windows, joins and timers still use it. Each branch of a plan has one watermark, because Spark refuses
a second watermark.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, TimestampType

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex

HOLD = "__ckpt_hold_event_time"
"""Name of a column that is 1970 in each row. A watermark on this column never advances."""
FOLLOWED = "__ckpt_followed_"
"""Prefix of the name of the added column on which Spark's watermark is set. The user's column name comes after it."""
MARK = "spark.watermarkDelayMs"
"""Metadata key by which Spark marks an event-time column. The value is the watermark's delay in milliseconds."""
OBSERVED = "__ckpt_event_time"
"""Prefix of the names of event-time metrics. A name is the prefix, the delay in milliseconds and the input's uid."""


def hold_event_time(frame: DataFrame) -> DataFrame:
    """Return the frame with a second watermark, which stays in 1970.

    A query's watermark is the lowest of its inputs' watermarks. So the query's watermark stays in 1970 while the frame
    is part of the query. Rows of ``dropDuplicatesWithinWatermark`` are not affected, because Spark keeps them by the
    user's delays.
    """
    held = frame.withColumn(HOLD, F.timestamp_millis(F.lit(0)))
    return held.withWatermark(HOLD, "0 seconds").drop(HOLD)


def unordered_inputs(operators: Mapping[str, Operator], graph: JobGraph, vertex: JobVertex) -> frozenset[str]:
    """Return a vertex's bounded sources and edges that bring rows of any source not declared ``in_order``."""
    unordered = {uid for uid, operator in operators.items() if operator.kind == "source" and not operator.in_order}
    edges = [edge for edge in graph.inputs(vertex.uid) if graph.vertex(edge.producer).bounded]
    of_edges = {edge.uid for edge in edges if graph.upstream_sources(edge.producer) & unordered}
    return frozenset(of_edges | unordered.intersection(vertex.bounded_sources))


def max_ahead_of(operators: Mapping[str, Operator], graph: JobGraph, producer: str) -> float | None:
    """Return the largest ``max_ahead`` of the sources above a producer; None if any source has no limit.

    Rows that are more seconds ahead of the clock than that do not move the watermark.
    """
    limits = [operators[uid].max_ahead for uid in graph.upstream_sources(producer)]
    set_limits = [limit for limit in limits if limit is not None]
    return max(set_limits) if set_limits and len(set_limits) == len(limits) else None


_FOLLOW = "ckpt_follow"
"""Name of a frame's attribute. Its value is the function that replaces the frame's ``withWatermark``."""


@dataclass(frozen=True)
class EventTimeGuard:
    """Setter of the watermarks in a running query. Rows far ahead of the clock do not move these watermarks.

    ``observes``: True if the query counts rows that are too far ahead, before 1970 or without a time. Only queries with
    state do so.
    """

    observes: bool

    def follow(self, frame: DataFrame, column: str, delay: str, *, uid: str, max_ahead: float | None) -> DataFrame:
        """Return the frame with a watermark that rows further ahead of the clock than ``max_ahead`` do not move.

        The clock is the time of the micro-batch. Spark records this time with the batch's offsets, so a retry has the
        same result.

        Args:
            delay: the allowed lateness, as text for Spark.
            uid: name of the input in the counts.
            max_ahead: seconds; None if every row moves the watermark.
        """
        marked = type(frame).withWatermark(frame, column, delay)  # Spark checks the column and the delay
        field = _plain_time(marked)
        return marked if field is None else self._followed(frame, field, uid, max_ahead)

    def of_input(self, frame: DataFrame, mark: EventTime | None, *, uid: str, max_ahead: float | None) -> DataFrame:
        """Return the frame of an input with the watermark ``mark``. For the other arguments see :meth:`follow`.

        If ``mark`` is None, the frame gets its watermark when a user's function calls ``withWatermark``.
        """
        if mark is not None:
            return self.follow(
                frame, quoted(mark.column), f"{mark.delay_ms} milliseconds", uid=uid, max_ahead=max_ahead
            )

        return _watched(frame, functools.partial(self.follow, uid=uid, max_ahead=max_ahead))

    def _followed(self, frame: DataFrame, field: StructField, uid: str, max_ahead: float | None) -> DataFrame:
        time, delay_ms = F.col(quoted(field.name)), int((field.metadata or {})[MARK])
        start = F.timestamp_millis(F.lit(0))
        moving = time if max_ahead is None else F.when(time <= _bound(max_ahead), time)
        name = f"{FOLLOWED}{field.name}"
        followed = frame.withColumn(name, F.coalesce(moving, start))
        followed = followed.withWatermark(quoted(name), f"{delay_ms} milliseconds")
        if self.observes:
            moves = F.col(quoted(name)) == time
            counts = (
                F.count(F.lit(1)).alias("rows"),
                F.unix_millis(F.max(F.when(moves, time))).alias("newest"),
                F.count_if(~moves).alias("ahead"),
                F.count_if(time.isNull()).alias("without"),
                F.count_if(time < start).alias("before_1970"),
            )
            followed = followed.observe(f"{OBSERVED} {delay_ms} {uid}", *counts)
        columns = (_marked(schema_field, field) for schema_field in frame.schema.fields)
        return followed.select(*columns)


def projected(frame: DataFrame, *columns: Column) -> DataFrame:
    """Return a frame with ``columns`` of ``frame``, and with the replaced ``withWatermark`` if ``frame`` has one."""
    chosen = frame.select(*columns)
    follow = vars(frame).get(_FOLLOW)
    return chosen if follow is None else _watched(chosen, follow)


def _watched(frame: DataFrame, follow: Callable[[DataFrame, str, str], DataFrame]) -> DataFrame:
    def with_watermark(eventTime: str, delayThreshold: str) -> DataFrame:  # noqa: N803 - Spark's names
        return follow(frame, eventTime, delayThreshold)

    frame.withWatermark = with_watermark  # type: ignore[method-assign]
    setattr(frame, _FOLLOW, follow)
    return frame


def _plain_time(marked: DataFrame) -> StructField | None:
    """Return the event-time column of a frame with a watermark; None if it is no TIMESTAMP, such as a window.

    Return None also if two columns of the frame have the same name.
    """
    fields = marked.schema.fields
    names = {field.name.lower() for field in fields}
    marked_field = next((field for field in fields if MARK in (field.metadata or {})), None)
    is_plain = (
        marked_field is not None and isinstance(marked_field.dataType, TimestampType) and len(names) == len(fields)
    )
    return marked_field if is_plain else None


def _marked(field: StructField, marked: StructField) -> Column:
    column = F.col(quoted(field.name))
    return column.alias(field.name, metadata=marked.metadata) if field.name == marked.name else column


def _bound(max_ahead: float) -> Column:
    return F.current_timestamp() + F.lit(timedelta(seconds=max_ahead))
