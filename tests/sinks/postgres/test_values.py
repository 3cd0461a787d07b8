"""Values of Spark's rows arrive unchanged in the table, or are refused before the batch counts."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.errors import RowsRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.testing.staging import stage
from tests.sinks.databases import COLUMNS
from tests.sinks.postgres.world import World

pytestmark = pytest.mark.slow


def release(world: World, frame: DataFrame) -> list[object]:
    columns = tuple((field["name"], field["type"]) for field in json.loads(frame.schema.json())["fields"])
    sink = world.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    sink.release([stage(sink, frame, 1)], 1)
    return [row[0] for row in world.run(f'SELECT * FROM "{world.schema}".orders')]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("varchar(3)", "'abc  '"), ("varchar(3)[]", "array('a', 'abc ')"), ("varchar(3)[]", "array(array('abc '))")],
)
def test_trailing_blanks_that_do_not_fit_are_refused(spark: SparkSession, world: World, kind: str, value: str) -> None:
    world.table(f"c {kind}")
    with pytest.raises(RowsRefusedError, match="SQLSTATE 22001"):
        release(world, spark.sql(f"SELECT {value} AS c"))
    assert world.rows() == []


def domains(world: World, kind: str, name: str) -> None:
    """Create the domain ``name`` over another domain, which is over ``kind``."""
    world.run(f'CREATE DOMAIN "{world.schema}".inner_{name} AS {kind} NOT NULL')
    world.run(f'CREATE DOMAIN "{world.schema}".{name} AS "{world.schema}".inner_{name}')


@pytest.mark.parametrize(
    ("kind", "is_array", "value"),
    [
        ("varchar(3)", "", "'abc  '"),
        ("varchar(3)", "[]", "array('a', 'abc ')"),
        ("varchar(3)[]", "", "array('a', 'abc ')"),
    ],
)
def test_trailing_blanks_that_do_not_fit_a_nested_domain_are_refused(
    spark: SparkSession, world: World, kind: str, is_array: str, value: str
) -> None:
    domains(world, kind, "short")
    world.table(f'c "{world.schema}".short{is_array}')
    with pytest.raises(RowsRefusedError, match="SQLSTATE 22001"):
        release(world, spark.sql(f"SELECT {value} AS c"))
    assert world.rows() == []


def test_a_nested_domain_is_checked_as_its_base_type(spark: SparkSession, world: World) -> None:
    domains(world, "bigint", "number")
    world.run(f'CREATE TABLE "{world.schema}".orders (id "{world.schema}".number, ids "{world.schema}".number[])')
    assert release(world, spark.sql("SELECT 7 AS id, array(7L) AS ids")) == [7]
    with pytest.raises(TargetRefusedError, match="its column 'id' is NOT NULL and has no default"):
        world.bind().check_rows(SinkInput("lake", (("ids", {"type": "array", "elementType": "long"}),)))
    world.bind().check_rows(SinkInput("lake", (("id", "long"),)))
    with pytest.raises(TargetRefusedError, match="column 'id' is double in the job and bigint in the table"):
        world.bind().check_rows(SinkInput("lake", (("id", "double"),)))


def test_fitting_texts_keep_their_trailing_blanks(spark: SparkSession, world: World) -> None:
    world.table("c varchar(3)")
    values = ["", "a  ", "\N{GRINNING FACE}ü ", None]
    assert sorted(release(world, spark.createDataFrame([(value,) for value in values], "c string")), key=str) == sorted(
        values, key=str
    )


@pytest.mark.parametrize("kind", ["name", '"char"', "interval(0)", "interval second"])
def test_a_type_that_silently_truncates_texts_is_refused(world: World, kind: str) -> None:
    world.table(f"id int, city {kind}")
    with pytest.raises(TargetRefusedError, match="column 'city' is string in the job"):
        world.bind().check_rows(SinkInput("lake", COLUMNS))


@pytest.mark.parametrize(
    ("kind", "value"), [("timestamptz[]", "timestamp'10000-01-01'"), ("date[]", "date'-0005-01-01'")]
)
def test_invalid_dates_in_an_array_are_an_error_of_the_rows(
    spark: SparkSession, world: World, kind: str, value: str
) -> None:
    world.table(f"c {kind}")
    with pytest.raises(RowsRefusedError, match="an array holds a date after the year 9999, or before 1"):
        release(world, spark.sql(f"SELECT array({value}) AS c"))


def test_an_invalid_text_in_an_array_is_an_error_of_the_rows(spark: SparkSession, world: World) -> None:
    world.table("c text[]")
    with pytest.raises(RowsRefusedError, match="SQLSTATE 22021, an array holds a text that is not UTF-8"):
        release(world, spark.sql("SELECT array(CAST(X'ff41' AS STRING)) AS c"))


def test_timestamps_in_a_struct_keep_their_microseconds(spark: SparkSession, world: World) -> None:
    world.table("c jsonb")
    values = release(world, spark.sql("SELECT struct(timestamp'2026-01-02 03:04:05.123456Z' AS at) AS c"))
    assert values == [{"at": "2026-01-02T03:04:05.123456Z"}]


def test_an_unlogged_or_foreign_partition_is_refused(world: World) -> None:
    orders, given = f'"{world.schema}".orders', SinkInput("lake", COLUMNS)
    world.run(f"CREATE TABLE {orders} (id int, city text) PARTITION BY LIST (id)")
    world.bind().check_rows(given)
    world.run(f'CREATE UNLOGGED TABLE "{world.schema}".one PARTITION OF {orders} FOR VALUES IN (1)')
    with pytest.raises(TargetRefusedError, match="or a partition of it, is UNLOGGED"):
        world.bind().check_rows(given)
    world.run(f'DROP TABLE "{world.schema}".one')
    server = f'"{world.schema} far"'
    world.run(f"CREATE FOREIGN DATA WRAPPER {server}; CREATE SERVER {server} FOREIGN DATA WRAPPER {server}")
    world.run(f'CREATE FOREIGN TABLE "{world.schema}".two PARTITION OF {orders} FOR VALUES IN (2) SERVER {server}')
    with pytest.raises(TargetRefusedError, match="is a foreign table"):
        world.bind().check_rows(given)


def test_replace_is_refused_if_a_policy_may_hide_rows(world: World) -> None:
    role, orders = f"clerk_{world.schema.split()[1]}_rls", f'"{world.schema}".orders'
    world.table("id int, city text").run(f"CREATE ROLE {role} LOGIN")
    world.run(f'CREATE SCHEMA "{world.staging}" AUTHORIZATION {role}')
    world.run(f'GRANT USAGE ON SCHEMA "{world.schema}" TO {role}; GRANT ALL ON {orders} TO {role}')
    world.run(f"ALTER TABLE {orders} ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {orders} USING (city = 'mine')")

    def check(mode: str) -> None:
        url = world.url.replace("airflow:s3cr3tPW", role)
        sink = PostgresSink(f"{orders}", mode=mode, url=url, staging_schema=world.staging)  # type: ignore[arg-type]
        sink.bind(SinkContext("orders", "lake")).check_rows(SinkInput("lake", COLUMNS))

    check("append")
    with pytest.raises(TargetRefusedError, match="may hide rows from the user"):
        check("replace")
