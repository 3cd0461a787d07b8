"""Event time of inputs that end: while one is read, the watermark of its query does not advance.

History is read in the order of modification times, and a compaction, a restore or a synchronised bucket changes those.
Spark drops the rows that are late by then. So every bounded input holds the watermark at its start, unless its user
says that it is in order. When the input has ended it is left out of the query, and live rows drive event time (R13).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex

HOLD = "__ckpt_hold_event_time"
"""Column of the watermark that never advances."""


def hold_event_time(frame: DataFrame) -> DataFrame:
    """Return the frame with a second watermark, which stays in 1970.

    A query's watermark is the least of those of its inputs, so it stays there as long as the frame is part of it. The
    delays that the user has given stay as they are: Spark keeps rows of ``dropDuplicatesWithinWatermark`` by them.
    """
    held = frame.withColumn(HOLD, F.timestamp_millis(F.lit(0)))
    return held.withWatermark(HOLD, "0 seconds").drop(HOLD)


def unordered_inputs(operators: Mapping[str, Operator], graph: JobGraph, vertex: JobVertex) -> frozenset[str]:
    """Return the bounded sources and edges of a vertex whose rows come in no order of event time."""
    unordered = {uid for uid, operator in operators.items() if operator.kind == "source" and not operator.in_order}
    edges = [edge for edge in graph.inputs(vertex.uid) if graph.vertex(edge.producer).bounded]
    of_edges = {edge.uid for edge in edges if graph.upstream_sources(edge.producer) & unordered}
    return frozenset(of_edges | unordered.intersection(vertex.bounded_sources))
