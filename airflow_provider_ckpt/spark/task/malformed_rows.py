"""The number of malformed rows that a batch has read, by source.

A micro-batch counts malformed rows while it reads. Spark may count a row twice, when a task or a whole output runs
again. So if a batch has malformed rows, its files are read again for the exact number. A batch without a query (in mode
"batch" or of a split) is always read again. So are JSON files, because Spark's reader drops text silently.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.query.analysed_plan import analysed, each
from airflow_provider_ckpt.spark.query.sources.malformed import COUNTED, FAILING, METRIC, malformed_only, quarantined
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch
from airflow_provider_ckpt.spark.task.errors import UnfitInputError
from airflow_provider_ckpt.spark.task.malformed_reason import malformed_reason
from airflow_provider_ckpt.spark.task.trailing_text import TrailingText, trailing_text
from airflow_provider_ckpt.storage.redaction import redact_uri

log = logging.getLogger(__name__)

Choose = Callable[[str, DataFrame], DataFrame]
"""(source, frame of its files) → the rows of the files that the source reads."""
_NAMED = 3
"""Maximum number of files of a batch that a warning names."""
_SHOWN = 80
"""Maximum number of characters of a row that the driver's log shows."""
_UNFIT = "values that do not fit its schema and are read as nulls"
_TRAILING = "text after the first JSON value, which is not read"


@dataclass(frozen=True)
class BatchSource:
    """A source whose reader checks rows.

    ``relation`` is Spark's relation of its files. ``counts``: True to count malformed rows, False to fail at them.
    """

    uid: str
    relation: Any
    counts: bool


class _RowCount(NamedTuple):
    """The number of malformed rows in a file. ``kind`` describes the rows in a warning."""

    source: str
    file: str
    kind: str
    rows: int


@dataclass(frozen=True)
class BatchCheck:
    """The check of the rows that the analysed plan of a batch reads.

    Attributes:
        choose: returns the rows of the files that a source reads.
        quarantines: source → the sink for its malformed rows.
    """

    spark: SparkSession
    vertex: str
    plan: Any
    choose: Choose
    quarantines: Mapping[str, str]

    def sources(self) -> Iterator[BatchSource]:
        for leaf in each(self.plan.collectLeaves()):
            if leaf.nodeName() == "LogicalRelation":
                relation = leaf.relation()
                names: Iterable[str] = map(str, relation.schema().fieldNames())
                for name in names:
                    for prefix in (COUNTED, FAILING):
                        if name.startswith(prefix):
                            yield BatchSource(name.removeprefix(prefix), relation, prefix == COUNTED)

    def unfit(self, source: BatchSource) -> DataFrame:
        """Return the source's rows that do not fit its schema, with all columns."""
        session: Any = self.spark._jsparkSession
        frame = DataFrame(session.baseRelationToDataFrame(source.relation), self.spark)
        return malformed_only(self.choose(source.uid, frame), f"{COUNTED}{source.uid}")

    def trailing(self, source: BatchSource) -> TrailingText | None:
        """Return the check for trailing text; None if the source has no JSON files."""
        return trailing_text(self.spark, source.relation, functools.partial(self.choose, source.uid))

    def refuse_trailing(self) -> None:
        """Refuse rows with trailing text in sources that fail at malformed rows, and log the first.

        Raises UnfitInputError.
        """
        checks = [self.trailing(source) for source in self.sources() if not source.counts]
        probes = [_Probe(check.suspects(), check.rows) for check in checks if check is not None]
        for rows in _not_empty(probes):
            by_file = rows.groupBy("file").agg(F.count("row").alias("rows"), F.min("row").alias("row"))
            first = by_file.orderBy("file").take(1)
            if not first:
                continue
            [(file, number, row)] = first
            shown = redact_uri(file)
            log.error("a row with text after its JSON value, in %s, begins with %s", shown, ascii(row[:_SHOWN]))
            raise UnfitInputError(
                "the query of vertex {vertex!r} cannot read {file}: there is text after the first JSON value of "
                "{rows} rows, such as a second value, and Spark reads the first value only. Nothing of the batch was "
                "released. Write each value in a line of its own, under the name of the file, and leave out the "
                "reader's option multiLine. Or give the source on_malformed='count', which counts such rows. Then "
                "start the job with --resume-failed",
                vertex=self.vertex,
                file=shown,
                rows=number,
            )

    def counted(self, *, with_unfit: bool) -> dict[str, int]:
        """Return source → number of malformed rows. ``with_unfit``: also count rows that do not fit the schema."""
        frames = _not_empty(list(self._malformed(with_unfit)))
        if not frames:
            return {}
        rows = functools.reduce(DataFrame.union, frames).groupBy("source", "file", "kind")
        counts = [_RowCount(*count) for count in rows.count().collect()]
        for source, kind in sorted({(count.source, count.kind) for count in counts}):
            files = {count.file: count.rows for count in counts if (count.source, count.kind) == (source, kind)}
            log.warning("%s", _warning(source, kind, files, self.quarantines.get(source)))
        return {
            uid: sum(count.rows for count in counts if count.source == uid)
            for uid in sorted({count.source for count in counts})
        }

    def _malformed(self, with_unfit: bool) -> Iterator[_Probe]:
        for source in self.sources():
            if not source.counts:
                continue
            if with_unfit:
                rows = self.unfit(source)
                yield _Probe(rows, functools.partial(_named, rows, source.uid, _UNFIT))
            if (trailing := self.trailing(source)) is not None:
                yield _Probe(trailing.suspects(), functools.partial(_trailing_of, trailing, source.uid))


class _Probe(NamedTuple):
    """Rows that may be malformed. ``make_exact`` returns the rows that are malformed."""

    rows: DataFrame
    make_exact: Callable[[], DataFrame]


def _not_empty(probes: Sequence[_Probe]) -> list[DataFrame]:
    """Return the malformed rows of each probe with suspect rows. One Spark job counts suspect rows for all probes."""
    if not probes:
        return []
    numbers = [probe.rows.agg(F.count(F.lit(1))).withColumn("at", F.lit(at)) for at, probe in enumerate(probes)]
    counts = functools.reduce(DataFrame.union, numbers).collect()
    return [probes[at].make_exact() for at in sorted(at for rows, at in counts if rows)]


def _named(rows: DataFrame, source: str, kind: str) -> DataFrame:
    return rows.select(F.lit(source).alias("source"), _file(rows).alias("file"), F.lit(kind).alias("kind"))


def _trailing_of(trailing: TrailingText, source: str) -> DataFrame:
    return trailing.rows().select(F.lit(source).alias("source"), "file", F.lit(_TRAILING).alias("kind"))


@dataclass(frozen=True)
class MalformedRows:
    """The malformed rows of a batch. ``counts``: source → number of its malformed rows."""

    check: BatchCheck
    counts: Mapping[str, int]

    def of(self, source: str) -> DataFrame:
        """Return the malformed rows of a source in the form for its quarantine. The source must have such rows."""
        return functools.reduce(DataFrame.union, self._rows_of(source))

    def _rows_of(self, uid: str) -> Iterator[DataFrame]:
        for source in self.check.sources():
            if source.uid == uid:
                column = f"{COUNTED}{uid}"
                reason = malformed_reason(self.check.spark, source.relation, column)
                yield quarantined(self.check.unfit(source), column, reason)
                if (trailing := self.check.trailing(source)) is not None:
                    yield trailing.rows()


def malformed_of_batch(
    spark: SparkSession, vertex: str, choose: Choose, quarantines: Mapping[str, str]
) -> MalformedRows:
    """Return the malformed rows of the current micro-batch.

    Call this in the thread that runs ``foreachBatch``, after the output is written.

    Raises UnfitInputError.
    """
    execution = execution_of_batch(spark, vertex)
    check = BatchCheck(spark, vertex, execution.logical(), choose, quarantines)
    check.refuse_trailing()
    return MalformedRows(check, check.counted(with_unfit=any(_observed(execution.observedMetrics()))))


def malformed_of_frame(frame: DataFrame, vertex: str, quarantines: Mapping[str, str]) -> MalformedRows:
    """Return the malformed rows in the files that a batch frame reads. See :func:`malformed_of_batch`."""
    check = BatchCheck(frame.sparkSession, vertex, analysed(frame), lambda uid, rows: rows, quarantines)
    check.refuse_trailing()
    return MalformedRows(check, check.counted(with_unfit=True))


def _observed(metrics: Any) -> Iterator[int]:
    iterator = metrics.iterator()
    while iterator.hasNext():
        metric = iterator.next()
        if str(metric._1()).startswith(METRIC):
            yield int(metric._2().getLong(0))


def _file(frame: DataFrame) -> Column:
    return frame.metadataColumn("_metadata")["file_path"]


def _warning(source: str, kind: str, files: Mapping[str, int], sink: str | None) -> str:
    named = [redact_uri(file) for file in sorted(files)[:_NAMED]]
    more = f" and {counted(len(files) - _NAMED, 'more file')}" if len(files) > _NAMED else ""
    rows = counted(sum(files.values()), "malformed row")
    return f"source {source} gave {rows} in this batch, {_what(kind, sink)}: in {', '.join(named)}{more}"


def _what(kind: str, sink: str | None) -> str:
    """Return the part of a warning that describes the rows. ``sink`` is their quarantine; None without one."""
    if sink is None:
        return f"with {kind}"
    if kind == _UNFIT:
        return f"which do not fit its schema and go to the quarantine {sink}"
    return f"with {kind}, and the whole lines go to the quarantine {sink}"
