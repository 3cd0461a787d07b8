"""Rows of CSV and JSON files that do not fit the schema of their source.

Spark silently reads such a row as nulls. So each reader asks Spark for a further column with the text of each malformed
row. It is null in other rows, and the user's function never gets it. The source's ``on_malformed`` states whether a
malformed row fails the query, is counted, or goes to a quarantine sink.

Whether a row is malformed must not depend on the query. Spark converts only the columns that a query uses, and may
first drop rows by the query's conditions. So every expression in this module uses all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from airflow_provider_ckpt.job.operators import OnMalformed, Operator
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.stored_schemas import refuse_foreign_types

PARSED = frozenset({"csv", "json"})
"""Formats for which Spark detects malformed rows."""
COUNTED = "__ckpt_counted_"
"""Prefix of the name of the column of malformed rows, in a source that counts them. The source's uid comes after it."""
QUARANTINE = StructType().add("file", StringType()).add("row", StringType()).add("reason", StringType())
"""Schema of the rows that a quarantine sink gets: the file, the text of the malformed row, and the reason."""
FAILING = "__ckpt_failing_"
"""Prefix of the name of the column of malformed rows, in a source that fails at them. The source's uid comes after it.
"""
METRIC = "ckpt_malformed_rows_"
"""Prefix of the name of the metric that counts malformed rows in a micro-batch. The source's uid comes after it."""
_MODES: Mapping[str, OnMalformed] = {"FAILFAST": "fail", "DROPMALFORMED": "count"}
"""Spark's option ``mode`` -> the equivalent ``on_malformed``."""


@dataclass(frozen=True)
class Treatment:
    """Choice of what a reader does with malformed rows, and the names that it uses.

    Attributes:
        sparks: Spark's own name of the column of malformed rows. A schema that Spark infers may have this column.
        column: this package's name of the column of malformed rows.
        metric: name of the metric that counts malformed rows; None if the query does not count them.
        drops: True if malformed rows are left out.
    """

    on_malformed: OnMalformed
    sparks: str
    column: str
    metric: str | None
    drops: bool

    @property
    def options(self) -> Mapping[str, str]:
        return {
            "columnNameOfCorruptRecord": self.column,
            "mode": "FAILFAST" if self.on_malformed == "fail" else "PERMISSIVE",
        }

    def schema(self, schema: StructType) -> StructType:
        """Return ``schema`` with this package's column of malformed rows in place of Spark's own (:attr:`sparks`)."""
        fields = [field for field in schema.fields if field.name.lower() != self.sparks.lower()]
        return StructType([*fields, StructField(self.column, StringType())])

    def treated(self, frame: DataFrame) -> DataFrame:
        """Return ``frame`` for the user's function: with malformed rows treated, and without :attr:`column`.

        ``frame`` must be read with :meth:`schema` and :attr:`options`.
        """
        row, names = F.col(quoted(self.column)), [name for name in frame.columns if name != self.column]
        columns = [F.col(quoted(name)) for name in names]
        if self.on_malformed == "fail":  # the condition is always true, and has Spark parse all columns
            frame = frame.where(F.when(row.isNull(), F.lit(True)).otherwise(as_json(names).isNotNull()))
        if self.metric is not None:
            frame = frame.observe(self.metric, F.count(_malformed(row, names)).alias("rows"))
        if self.drops:
            frame = frame.where(_malformed(row, names).isNull())
        return frame.select(*columns)


@dataclass(frozen=True)
class MalformedRule:
    """A source's rule for malformed rows. ``streaming``: True if the source is read as a stream."""

    operator: Operator
    streaming: bool

    def treatment(
        self, spark: SparkSession, form: str, options: Mapping[str, str], schema: StructType | None
    ) -> Treatment | None:
        """Return the treatment for a reader; None if malformed rows are left to Spark.

        Spark handles them in formats other than CSV and JSON, and if the user's schema has Spark's own column for them.
        ``schema`` is the schema that the user has set for the reader; None if Spark infers it.

        Raises UnfitSourceError.
        """
        options_of_reader = {key.lower(): value for key, value in options.items()}
        if form.lower() not in PARSED or "singlevariantcolumn" in options_of_reader:
            return None
        sparks = options_of_reader.get("columnnameofcorruptrecord") or str(
            spark.conf.get("spark.sql.columnNameOfCorruptRecord")
        )
        if schema is not None and sparks.lower() in map(str.lower, schema.names):
            self._refuse_own_column(sparks)
            return None
        mode = options_of_reader.get("mode", "").strip().upper()
        chosen = self._chosen(mode)
        counts, uid = chosen != "fail", self.operator.uid
        metric = f"{METRIC}{uid}" if counts and self.streaming else None
        column = f"{COUNTED if counts else FAILING}{uid}"
        drops = mode == "DROPMALFORMED" or chosen == "quarantine"
        return Treatment(chosen, sparks, column, metric, drops)

    def refuse_choice(self, form: str) -> None:
        """Refuse a source that declares ``on_malformed``, because its reader finds no malformed rows in this format.

        Raises UnfitSourceError.
        """
        choice = self.operator.on_malformed
        if choice is not None:
            about = {"uid": self.operator.uid, "location": self.operator.location}
            raise UnfitSourceError(
                "source {uid!r} ({location}) has on_malformed={on_malformed!r}, and reads the format {format}. "
                "Malformed rows are found only in files of the formats csv and json whose columns the reader gives. "
                "Leave on_malformed out, and have the function of the source find such rows",
                **about,
                on_malformed=choice,
                format=form,
            )

    def _refuse_own_column(self, column: str) -> None:
        choice = self.operator.on_malformed
        if choice is not None:
            about = {"uid": self.operator.uid, "location": self.operator.location}
            raise UnfitSourceError(
                "source {uid!r} ({location}) has on_malformed={on_malformed!r}, and its schema has the column "
                "{column}, in which Spark keeps malformed rows. Leave the column out of the schema, or leave "
                "on_malformed out and handle the rows in the function of the source",
                **about,
                on_malformed=choice,
                column=column,
            )

    def _chosen(self, mode: str) -> OnMalformed:
        choice, by_mode = self.operator.on_malformed, _MODES.get(mode)
        if choice is not None and by_mode is not None and by_mode != choice:
            about = {"uid": self.operator.uid, "location": self.operator.location}
            raise UnfitSourceError(
                "source {uid!r} ({location}) has on_malformed={on_malformed!r} and gives its reader the option "
                "mode={mode}, which is another choice. Leave one of the two out",
                **about,
                on_malformed=choice,
                mode=mode,
            )
        return choice or by_mode or ("fail" if self.operator.bounded else "count")


def load_treated(
    treatment: Treatment | None,
    schema: StructType | None,
    read: Callable[[], DataFrame],
    give: Callable[[StructType, Mapping[str, str]], None],
) -> DataFrame:
    """Return the frame that ``read`` loads, with malformed rows treated; as Spark loads it if ``treatment`` is None.

    Args:
        schema: the schema that the user has set for the reader; None if Spark infers it.
        read: loads the frame with Spark's reader. May be called twice, the first time to infer the schema.
        give: sets a schema and options on Spark's reader. Called before the last call of ``read``.
    """
    if treatment is None:
        return read()
    give(treatment.schema(refuse_foreign_types(read()).schema if schema is None else schema), treatment.options)
    return treatment.treated(read())


def malformed_only(frame: DataFrame, column: str) -> DataFrame:
    """Return the malformed rows of a frame. ``column``: the frame's column of malformed rows."""
    names = [name for name in frame.columns if name != column]
    return frame.where(_malformed(F.col(quoted(column)), names).isNotNull())


def quarantined(rows: DataFrame, column: str, reason: Column) -> DataFrame:
    """Return malformed rows with the columns of ``QUARANTINE``. ``rows``: result of :func:`malformed_only`."""
    file = rows.metadataColumn("_metadata")["file_path"]
    return rows.select(file.alias("file"), F.col(quoted(column)).alias("row"), reason.alias("reason"))


def _malformed(row: Column, names: list[str]) -> Column:
    """Return an expression that is null for each well-formed row, and the row's columns as JSON for a malformed row."""
    return F.when(row.isNotNull(), as_json(names))


def as_json(names: list[str]) -> Column:
    """Return an expression for a JSON object of a row's columns, without the columns that are null in the row."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), {"ignoreNullFields": "true"})
