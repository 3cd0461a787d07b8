"""Rows copied in PostgreSQL's binary form equal the rows copied as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_provider_ckpt.sinks.errors import RowsRefusedError
from airflow_provider_ckpt.sinks.postgres.copying import copier
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.postgres.staging import known_rows
from airflow_provider_ckpt.sinks.postgres.type_fit import binary_expression, fits
from airflow_provider_ckpt.sinks.sink import SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.spark.task.over_partitions import over_partitions
from airflow_provider_ckpt.testing.staging import stage
from tests.sinks.postgres.world import World

# column type of PostgreSQL: Arrow type, values
TYPES: dict[str, tuple[pyarrow.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pyarrow.bool_(), st.booleans()),
    "smallint": (pyarrow.int16(), st.integers(-(2**15), 2**15 - 1)),
    "integer": (pyarrow.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pyarrow.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pyarrow.float32(), st.floats(width=32, allow_nan=False) | st.just(math.nan)),
    "double precision": (pyarrow.float64(), st.floats(allow_nan=False) | st.just(math.nan)),
    "text": (pyarrow.string(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    "bytea": (pyarrow.binary(), st.binary()),
    "date": (pyarrow.date32(), st.dates()),
    "timestamp": (pyarrow.timestamp("us"), st.datetimes()),
    "timestamptz": (pyarrow.timestamp("us", "UTC"), st.datetimes()),
    "numeric(38,0)": (pyarrow.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "numeric(38,38)": (
        pyarrow.decimal128(38, 38),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(f"{number}e-38")),
    ),
    "numeric": (
        pyarrow.decimal128(38, 11),
        # numbers with many zeros inside
        st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 26))
        .map(lambda drawn: Decimal(drawn[0] * 10 ** drawn[1]))
        .map(lambda number: Decimal(f"{int(number)}e-11")),
    ),
}
ARROW = ["bool", "int16", "int32", "int64", "float", "double", "string", "binary", "date32[day]"]
ARROW += ["timestamp[us]"] * 2 + ["decimal128("] * 3
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in TYPES.values())), max_size=8)


class Table:
    """Table with a column of each type. Each copy empties it first."""

    def __init__(self, world: World) -> None:
        self.world = world.table(", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES)) + ", part bigint")
        self.name = f'"{world.schema}".orders'

    def copied(self, batches: Sequence[pyarrow.RecordBatch], arrow_types: list[str] | None, **given: Any) -> Any:
        copy, conninfo = f"COPY {self.name} FROM STDIN", psycopg.conninfo.conninfo_to_dict(self.world.url)
        given = {"sample": known_rows(), "numbers_rows": False, **given}
        settle = ["SET TIME ZONE 'UTC'", f"TRUNCATE {self.name}"]
        return copier(conninfo, [*settle, copy], 60, arrow_types=arrow_types, **given)(7, batches)

    def bytes(self) -> bytes:
        """Return the table's rows in PostgreSQL's own binary form."""
        with psycopg.connect(self.world.url) as connection, connection.cursor() as cursor:
            with cursor.copy(f"COPY {self.name} TO STDOUT (FORMAT binary)".encode()) as copy:
                return b"".join(bytes(chunk) for chunk in copy)


def batch_of(rows: Sequence[Sequence[Any]]) -> pyarrow.RecordBatch:
    values = zip(*rows, strict=True) if rows else [() for _ in TYPES]
    columns = [pyarrow.array(list(column), kind) for column, (kind, _) in zip(values, TYPES.values(), strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, names=list(TYPES))


@pytest.fixture
def table(world: World) -> Table:
    return Table(world)


def test_binary_copies_equal_text_copies_for_any_rows(table: Table) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(ROWS, max_size=3))
    def check(batches: list[Any]) -> None:
        given = [batch_of(rows) for rows in batches]
        answer = table.copied(given, ARROW)
        copied = table.bytes()
        assert answer == table.copied(given, None) | ({"form": "binary"} if answer["rows"] else {})
        assert copied == table.bytes()

    check()


def test_the_rows_that_verify_an_encoder_match_postgresqls_binary_form(world: World) -> None:
    rows, expected = known_rows()
    types = ["boolean", "smallint", "integer", "bigint", "real", "float8", "text", "bytea", "date", "timestamp"]
    types += ["numeric(18,6)", "numeric(38,10)"]
    world.table(", ".join(f"c{number} {kind}" for number, kind in enumerate(types)))
    with psycopg.connect(world.url) as connection, connection.cursor() as cursor:
        values = f'INSERT INTO "{world.schema}".orders VALUES ({", ".join(["%s"] * len(types))})'
        for row in rows.to_pylist():
            cursor.execute(values.encode(), list(row.values()))
        with cursor.copy(f'COPY "{world.schema}".orders TO STDOUT (FORMAT binary)'.encode()) as copy:
            assert b"".join(bytes(chunk) for chunk in copy) == expected


def one_row(**changed: Any) -> pyarrow.RecordBatch:
    """Return a row that is NULL except for the ``changed`` values, which are named by column type."""
    return batch_of([[changed.get(kind.replace(" ", "_")) for kind in TYPES]])


def test_a_missing_or_wrong_encoder_is_not_used(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, expected = known_rows()
    batch = one_row(bytea=b"\0\xff", integer=7, text="")
    assert table.copied([batch], ARROW)["form"] == "binary"
    as_it_should = table.bytes()
    # the encoding of a decimal begins with 50; this makes it 51
    wrong = expected.replace(b"\x00\x32\x00\x00", b"\x00\x33\x00\x00")
    assert wrong != expected
    assert table.copied([batch], ARROW, sample=(rows, wrong)) == {"task_attempt": 7, "rows": 1, "form": "csv"}
    assert table.bytes() == as_it_should
    for other in (None, Panicking()):
        monkeypatch.setitem(sys.modules, "pgpq", other)
        assert table.copied([batch], ARROW) == {"task_attempt": 7, "rows": 1, "form": "csv"}
        assert table.bytes() == as_it_should


class Panicking:
    """Encoder that cannot encode decimals. A panic in its Rust code raises a BaseException that is no Exception."""

    class Panic(BaseException):
        pass

    def ArrowToPostgresBinaryEncoder(self, schema: pyarrow.Schema) -> None:
        raise self.Panic


def test_values_of_another_type_than_the_column_are_copied_as_text(table: Table) -> None:
    """Both types have eight bytes, so PostgreSQL would read the bytes of one type as the other."""
    batch = one_row()
    batch = batch.set_column(3, "bigint", pyarrow.array([1.0], pyarrow.float64()))
    assert table.copied([batch], ARROW) == {"task_attempt": 7, "rows": 1, "form": "csv"}
    assert table.world.run(f"SELECT c3 FROM {table.name}") == [(1,)]


def test_a_timestamp_that_postgresql_cannot_store_is_an_error_of_the_rows(table: Table) -> None:
    too_early = pyarrow.array([-(2**63)], pyarrow.int64()).view(pyarrow.timestamp("us"))
    answer = table.copied([one_row(), one_row().set_column(9, "timestamp", too_early)], ARROW)
    assert answer == {
        "task_attempt": 7,
        "rows": 0,
        "error": {
            "sqlstate": "22008",
            "error": "a date or a timestamp that PostgreSQL cannot hold",
            "column": None,
            "constraint": None,
        },
    }


def test_user_types_and_negative_scale_decimals_are_not_cast() -> None:
    """Spark cannot cast them, so they are not copied in binary form. The job learns it when the rows are staged."""
    own = {"type": "udt", "class": "shop.Number", "sqlType": "integer"}
    assert fits(own, "bigint")
    assert binary_expression("c", own, "bigint") is None
    assert binary_expression("c", "decimal(3,-2)", "numeric") == ("`c`", "decimal128(")


def test_texts_are_converted_to_the_databases_encoding(spark: SparkSession, world: World) -> None:
    latin = f"latin_{world.schema.split()[1]}"
    world.run(f"CREATE DATABASE {latin} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    for url in (world.url.replace("/postgres", f"/{latin}"), f"{world.url}?client_encoding=LATIN1"):
        with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
            connection.execute(
                "DROP TABLE IF EXISTS public.latin; CREATE TABLE public.latin (city text, cities text[])"
            )
            sink = PostgresSink("public.latin", url=url).bind(SinkContext("orders", "latin"))
            sink.prepare()
            for columns in ("'ü' AS city", "'ü' AS city, array('ü') AS cities"):  # copied in binary form, then as text
                handle = stage(sink, spark.sql(f"SELECT {columns}"), 1)
                sink.release([handle], sink.last_released() + 1)
            assert connection.execute("SELECT city, cities FROM public.latin").fetchall() == [("ü", None), ("ü", ["ü"])]
            if latin in url:
                with pytest.raises(RowsRefusedError, match="SQLSTATE 22P05"):
                    stage(sink, spark.sql("SELECT '€' AS city"), 3)


SAMPLES = {
    "boolean": "true",
    "byte": "-128Y",
    "short": "-32768S",
    "integer": "7",
    "long": "-9223372036854775808L",
    "float": "0.5F",
    "double": "1e300D",
    "decimal(18,6)": "CAST('5000000000.000001' AS DECIMAL(18,6))",
    "string": "'ü'",
    "varchar(5)": "CAST('ü' AS VARCHAR(5))",
    "date": "date'0001-01-01'",
    "timestamp": "timestamp'2026-01-02 03:04:05.123456Z'",
    "timestamp_ntz": "timestamp_ntz'2026-01-02 03:04:05.123456'",
    "binary": "X'00ff5c'",
}
COLUMNS = [
    *("boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(30,10)", "text"),
    *("character varying", "character varying(5)", "date", "bytea", "timestamp with time zone", "character(5)"),
    *("timestamp without time zone", "timestamp(6) with time zone", "text[]", "jsonb", "json", "uuid", "citext"),
]
BY_TEXT = ["character(5)", "json", "jsonb", "uuid", "citext"]
FITTING = [(kind, column) for kind in SAMPLES for column in COLUMNS if fits(kind, column)]


def test_types_that_are_never_copied_in_binary_form() -> None:
    needs_text = {(kind, column) for kind, column in FITTING if binary_expression("c", kind, column) is None}
    assert needs_text == {
        ("float", "double precision"),  # the text of a real is shorter than the text of the same double
        *(
            (kind, column)
            for kind in ("string", "varchar(5)")
            for column in ("character(5)", "json", "jsonb", "uuid", "citext")
        ),
    }


def test_each_type_is_copied_into_each_fitting_column(spark: SparkSession, world: World) -> None:
    """Spark writes two tables of all pairs of types: one is copied in binary form, the other as text."""
    pairs = [(kind, column) for kind, column in FITTING if binary_expression("c", kind, column) is not None]
    answers: list[dict[str, Any]] = []

    def run(frame: Any, function: Any) -> list[Any]:
        answers.extend(results := over_partitions(frame, function))
        return results

    def release(more: str, value: str) -> list[Any]:
        columns = [f"c{number} {column}" for number, (_, column) in enumerate(pairs)]
        world.run(f'DROP TABLE IF EXISTS "{world.schema}".orders')
        world.table(", ".join([*columns, more]))
        frame = spark.sql(
            "SELECT " + ", ".join(f"{SAMPLES[kind]} AS c{number}" for number, (kind, _) in enumerate(pairs)) + value
        )
        sink = world.bind(uid=more.partition(" ")[0])
        sink.prepare()
        sink.release([sink.stage(frame, StageRequest("a1", 1, "n1", counted, run))], 1)
        return [row[:-1] for row in world.run(f'SELECT * FROM "{world.schema}".orders')]

    binary, text = release("last int", ", 7 AS last"), release("tags text[]", ", array('a') AS tags")
    assert [answer["form"] for answer in answers] == ["binary", "csv"]
    assert binary == text
    [row] = binary
    assert all(value is not None for value in row)
    assert row[pairs.index(("decimal(18,6)", "numeric"))] == Decimal("5000000000.000001")
    assert row[pairs.index(("date", "date"))] == date(1, 1, 1)
    at = pairs.index(("timestamp", "timestamp with time zone"))
    [timestamp] = world.run(f"""SELECT (c{at} AT TIME ZONE 'UTC')::text FROM "{world.schema}".orders""")
    assert timestamp == ("2026-01-02 03:04:05.123456",)


def test_an_invalid_text_is_an_error_of_the_rows(spark: SparkSession, world: World) -> None:
    sink = world.table("id int, city text").new()
    frame = spark.sql("SELECT 7 AS id, CAST(X'ff41' AS STRING) AS city")
    with pytest.raises(RowsRefusedError, match="SQLSTATE 22021"):
        stage(sink, frame, 1)
    with pytest.raises(RowsRefusedError, match="SQLSTATE 22021"):
        stage(sink, spark.sql("SELECT 7 AS id, concat('a', char(0)) AS city"), 2)
