"""The number of malformed rows that a batch has read, by source.

A micro-batch counts them while it reads. Spark may count a row twice, when a task or a whole output runs again. So if
there are any, the files of the batch are read once more for the exact number. A batch without a query, in mode "batch"
and of a split, is always read once more.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.query.analysed_plan import analysed, each
from airflow_provider_ckpt.spark.query.malformed import COUNTED, METRIC, malformed_only, quarantined
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch
from airflow_provider_ckpt.storage.redaction import redact_uri

log = logging.getLogger(__name__)

_NAMED = 3
"""Files of a batch that a warning names."""


@dataclass(frozen=True)
class MalformedRows:
    """The malformed rows of a batch. ``counts``: by source; ``plan``: the analysed plan that reads them."""

    spark: SparkSession
    plan: Any
    counts: Mapping[str, int]

    def of(self, source: str) -> DataFrame:
        """Return the rows of a source that has some, as a quarantine is given them."""
        session: Any = self.spark._jsparkSession
        frames = [
            quarantined(DataFrame(session.baseRelationToDataFrame(relation), self.spark), f"{COUNTED}{source}")
            for uid, relation in _relations(self.plan)
            if uid == source
        ]
        return functools.reduce(DataFrame.union, frames)


def malformed_of_batch(spark: SparkSession, vertex: str) -> MalformedRows:
    """Return the malformed rows of the micro-batch that is calling ``foreachBatch`` in this thread.

    Called after the output of the batch is written. A source that fails at malformed rows is left out.
    """
    execution = execution_of_batch(spark, vertex)
    plan, is_any = execution.logical(), any(_observed(execution.observedMetrics()))
    return MalformedRows(spark, plan, _counted(spark, plan) if is_any else {})


def malformed_of_frame(frame: DataFrame) -> MalformedRows:
    """Return the malformed rows in the files that a batch frame reads. As :func:`malformed_of_batch`."""
    plan = analysed(frame)
    return MalformedRows(frame.sparkSession, plan, _counted(frame.sparkSession, plan))


def _observed(metrics: Any) -> Iterator[int]:
    found = metrics.iterator()
    while found.hasNext():
        one = found.next()
        if str(one._1()).startswith(METRIC):
            yield int(one._2().getLong(0))


def _counted(spark: SparkSession, plan: Any) -> dict[str, int]:
    frames = [_by_file(spark, *one) for one in _relations(plan)]
    if not frames:
        return {}
    rows = functools.reduce(DataFrame.union, frames).groupBy("source", "file").agg(F.sum("rows").alias("rows"))
    found: dict[str, dict[str, int]] = {}
    for source, file, number in rows.collect():
        found.setdefault(source, {})[file] = number
    for source, files in sorted(found.items()):
        log.warning("%s", _warning(source, files))
    return {source: sum(files.values()) for source, files in sorted(found.items())}


def _relations(plan: Any) -> Iterator[tuple[str, Any]]:
    """Yield each source that counts malformed rows, with its relation in Spark."""
    for leaf in each(plan.collectLeaves()):
        if leaf.nodeName() == "LogicalRelation":
            names: Iterable[str] = map(str, leaf.relation().schema().fieldNames())
            yield from ((name.removeprefix(COUNTED), leaf.relation()) for name in names if name.startswith(COUNTED))


def _by_file(spark: SparkSession, source: str, relation: Any) -> DataFrame:
    session: Any = spark._jsparkSession
    frame = DataFrame(session.baseRelationToDataFrame(relation), spark)
    rows = malformed_only(frame, f"{COUNTED}{source}")
    by_file = rows.groupBy(frame.metadataColumn("_metadata")["file_path"].alias("file")).count()
    return by_file.select(F.lit(source).alias("source"), "file", F.col("count").alias("rows"))


def _warning(source: str, files: dict[str, int]) -> str:
    named = [redact_uri(file) for file in sorted(files)[:_NAMED]]
    more = f" and {counted(len(files) - _NAMED, 'more file')}" if len(files) > _NAMED else ""
    return (
        f"source {source} gave {counted(sum(files.values()), 'malformed row')} in this batch, with values that do not "
        f"fit its schema and are read as nulls: in {', '.join(named)}{more}"
    )
