"""Reasons why rows of CSV and JSON files are malformed.

Spark reports only that a row is malformed. So the text of the row is parsed again, with schemas that can fail for one
reason only. A null column is not always the reason, because the value may be absent or empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType, VariantType

from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.spark.task.file_relation import (
    CORRUPT,
    LIKE_UTF_8,
    charset_of,
    format_of,
    options_of,
    own_fields,
    row_options,
)

NO_OBJECT = "no JSON object"
TOO_FEW = "too few values"
TOO_MANY = "too many values"
UNKNOWN = "does not fit the schema"
_NOTHING = StructType([StructField("__ckpt_nothing", StringType())])
"""A schema that every JSON object fits."""
_END = "__ckpt_end"
"""Value that is appended to a CSV row, to find the number of its values."""
_NESTED = (ArrayType, MapType, StructType, VariantType)
"""Types whose value Spark does not read as null if only a part of the value is faulty."""


def malformed_reason(spark: SparkSession, relation: Any, column: str, most: int | None = None) -> Column:
    """Return a column with the reason why a row of ``relation`` is malformed.

    ``column`` has the text of the row. ``most``: maximum number of faulty columns to name; None names all.
    """
    return _Row(spark, relation, column).reason(most)


@dataclass(frozen=True)
class _Row:
    spark: SparkSession
    relation: Any
    column: str

    def reason(self, most: int | None) -> Column:
        reason = self._of_json(most) if format_of(self.relation) == "JSON" else self._of_csv(most)
        return F.coalesce(reason, F.lit(UNKNOWN)).cast("string")

    @property
    def _text(self) -> Column:
        return F.col(quoted(self.column))

    def _fields(self) -> list[StructField]:
        return [StructField(field.name, field.dataType) for field in own_fields(self.relation)]

    def _options(self) -> dict[str, str]:
        options = row_options(options_of(self.relation))
        return {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": CORRUPT}

    def _of_json(self, most: int | None) -> Column:
        """Return the reason; null if the text may have several rows, or if Spark cannot parse its charset here."""
        if charset_of(options_of(self.relation)) not in LIKE_UTF_8:
            return F.lit(None)
        fields, text, options = self._fields(), self._text, self._options()

        def faults(keys: Column) -> Column:
            return F.flatten(F.array(*(_faults(text, keys, field, options) for field in fields)))

        given_keys = F.map_keys(
            F.map_filter(F.from_json(text, "map<string, string>", options), lambda key, value: value.isNotNull())
        )
        of_columns = _named(_once(F.coalesce(given_keys, _none()), faults), most)
        is_array = self._text.rlike(r"^[\s\ufeff]*\[")
        no_object = ~_fits(self._text, _NOTHING, self._options())
        return F.when(~is_array, F.when(no_object, F.lit(NO_OBJECT)).otherwise(of_columns))

    def _of_csv(self, most: int | None) -> Column:
        fields, options = self._fields(), self._options()
        names = [f"c{at}" for at in range(len(fields))]
        schema = ", ".join(f"{name} string" for name in [*names, CORRUPT])
        text = F.regexp_replace(self._text, r"[\r\n]+$", "")
        longer = F.concat(text, F.lit(self._separator() + _END))

        def count(row: Column) -> Column:
            values = F.array(*(row[name] for name in names)).cast("array<string>")
            has_end = F.exists(values, lambda value: value.endswith(_END))
            return F.when(F.coalesce(has_end, F.lit(False)), F.lit(TOO_FEW)).otherwise(F.lit(TOO_MANY))

        def of_columns(row: Column) -> Column:
            faults = [
                F.when(row[name].isNotNull() & F.col(quoted(field.name)).isNull(), F.lit(field.name))
                for name, field in zip(names, fields, strict=True)
            ]
            return _named(F.array_compact(F.array(*faults).cast("array<string>")), most)

        def why(row: Column) -> Column:
            counted = _once(F.from_csv(longer, schema, options), count)
            return F.when(row[CORRUPT].isNotNull(), counted).otherwise(of_columns(row))

        return _once(F.from_csv(text, schema, options), why)

    def _separator(self) -> str:
        given = options_of(self.relation)
        jvm: Any = self.spark._jvm
        separator = given.get("sep", given.get("delimiter", ","))
        return str(jvm.org.apache.spark.sql.catalyst.csv.CSVExprUtils.toDelimiterStr(separator))


def _named(columns: Column, most: int | None) -> Column:
    shown = columns if most is None else F.slice(columns, 1, most)
    return F.when(F.size(columns) > 0, F.concat(F.lit("read as null: "), F.array_join(shown, ", ")))


def _once(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return ``use(value)``. Spark computes ``value`` only one time, because repeated parsers would fill the memory."""
    return F.transform(F.array(value), use)[0]


def _none() -> Column:
    return F.array().cast("array<string>")


def _faults(text: Column, keys: Column, field: StructField, options: Mapping[str, str]) -> Column:
    """Return an array with the name of a faulty column, or with the paths of faulty values in it.

    ``keys``: the names in the JSON object whose values are not null.
    """
    if isinstance(field.dataType, _NESTED):
        return _faults_within(text, [], field, options)
    is_faulty = F.col(quoted(field.name)).isNull() & F.array_contains(keys, field.name)
    return F.when(is_faulty, F.array(F.lit(field.name))).otherwise(_none())


def _faults_within(text: Column, above: list[str], field: StructField, options: Mapping[str, str]) -> Column:
    path = [*above, field.name]
    itself = F.array(F.lit(".".join(path)))
    if isinstance(field.dataType, StructType) and field.dataType.fields:
        inner = [_faults_within(text, path, inner_field, options) for inner_field in field.dataType.fields]
        is_object = _fits(text, _wrapped(path, _NOTHING), options)
        return F.when(is_object, F.flatten(F.array(*inner))).otherwise(itself)
    is_faulty = ~_fits(text, _wrapped(above, StructType([field])), options)
    return F.when(is_faulty, itself).otherwise(_none())


def _wrapped(path: list[str], inner: StructType) -> StructType:
    """Return the schema of nested objects with the names ``path``. The innermost object has the schema ``inner``."""
    for name in reversed(path):
        inner = StructType([StructField(name, inner)])
    return inner


def _fits(text: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Return a column: true if the text is an object of the schema. Fields that the schema lacks are ignored."""
    with_corrupt = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return F.from_json(text, with_corrupt, dict(options))[CORRUPT].isNull()
