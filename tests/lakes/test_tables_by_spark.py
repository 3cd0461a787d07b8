"""Spark's output in tables of all types and partitions, and the rows that other readers find there."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.expressions import EqualTo, IsNull, Reference
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestampType, TimestamptzType
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.errors import StagedFileUnusableError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.testing.staging import stage
from tests.lakes.warehouse import NAME, Warehouse

pytestmark = [pytest.mark.slow, pytest.mark.spark]
CONTEXT = SinkContext("orders", "lake")
ALL_TYPES = """
    select 1 as i, 2L as l, 3S as s, 4Y as y, 1.5D as d, 2.5F as f, true as b, 'a/b c%' as t, x'00ff' as bin,
      date '0001-01-02' as day, timestamp '2026-03-29 01:30:00.123456' as at,
      timestamp_ntz '1969-12-31 23:59:59.999999' as ntz, cast(12.34 as decimal(10,2)) as n,
      array(1, null) as a, map('k', 1L) as m, named_struct('x', 1, 'y', array('z')) as st
    union all
    select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
"""


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[str]:
    """Set a session time zone whose offset from UTC is no whole hour."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield "Asia/Kathmandu"
    spark.conf.set("spark.sql.session.timeZone", str(before))


def test_every_type_is_written_to_a_created_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(ALL_TYPES)
    sink = DeltaSink(str(tmp_path / "t")).bind(CONTEXT)
    sink.release([stage(sink, frame, 1)], 1)
    check_types(DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist())


def test_every_type_is_written_to_a_created_iceberg_table(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    sink = warehouse.bind()
    sink.release([stage(sink, spark.sql(ALL_TYPES), 1)], 1)
    check_types(warehouse.table().scan().to_arrow().to_pylist())


@pytest.mark.parametrize("columns", ["st", "st, a, m"], ids=["files of Spark", "files of pyiceberg"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_every_field_of_released_rows_follows_a_renaming(
    spark: SparkSession, tmp_path: Path, columns: str, mode: str
) -> None:
    """Spark writes the ids of columns and of fields of structs, and none inside arrays and maps."""
    warehouse = Warehouse(tmp_path)
    sink = warehouse.bind(mode=mode)
    nested = "named_struct('x', 1, 'in', named_struct('y', 's', 'z', 2Y)) as st, array(named_struct('u', 5)) as a"
    frame = spark.sql(f"select 1 as id, {nested}, map('k', named_struct('v', 6L)) as m")
    frame = frame.selectExpr("id", *columns.split(", "))
    sink.check_rows(SinkInput("lake", tuple((field.name, field.dataType.jsonValue()) for field in frame.schema)))
    sink.prepare()
    handle = json.loads(json.dumps(stage(sink, frame, 1)))
    moved = [file["target"].startswith("data/") for file in handle["files"]]
    assert moved == [columns == "st"] * len(moved)
    sink.release([handle], 1)
    renamed = ["id", "st", "st.in", "st.in.y", "st.in.z"]
    if columns != "st":
        renamed += ["a", "a.element.u", "m", "m.value.v"]
    for name in renamed[::-1]:
        old = name.rpartition(".")[2]
        parent = tuple(name.split(".")[:-1])
        with warehouse.table().update_schema() as update:
            update.rename_column(name, f"{old}_new")
        with warehouse.table().update_schema() as update:
            update.add_column((*parent, old), LongType())
    [row] = warehouse.table().scan().to_arrow().to_pylist()
    inner = {"y_new": "s", "z_new": 2, "y": None, "z": None}
    assert (row["id_new"], row["id"], row["st"]) == (1, None, None)
    assert row["st_new"] == {"x": 1, "in_new": inner, "in": None}
    if columns != "st":
        assert row["a_new"] == [{"u_new": 5, "u": None}]
        assert dict(row["m_new"]) == {"k": {"v_new": 6, "v": None}}


def test_field_ids_of_another_table_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    ids = {"parquet.field.id": 2}
    for number, kind in enumerate(("1 as id, 2 as n", "1 as id, array(2) as n")):
        place = tmp_path / str(number)
        place.mkdir()
        warehouse = Warehouse(place)
        frame = spark.sql(f"select {kind}").withMetadata("id", ids).withMetadata("n", {"parquet.field.id": 1})
        sink = warehouse.bind()
        sink.release([stage(sink, frame, 1)], 1)
        assert warehouse.table().scan().to_arrow().to_pylist() == [{"id": 1, "n": [2] if number else 2}]


def test_a_key_may_be_a_text_of_several_kb(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's writer omits all statistics of such a column, but the sink uses them to find nulls."""
    sink = DeltaSink(str(tmp_path / "t"), mode="upsert", key=["name"]).bind(CONTEXT)
    handles = [stage(sink, spark.sql(f"select repeat('ü', 5000) as name, {n} as n"), n) for n in (1, 2)]
    assert sink.release(handles, 1)["rows"] == 2
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist() == [{"name": "ü" * 5000, "n": 2}]
    with pytest.raises(StagedFileUnusableError, match="key column 'name' is null in some rows"):
        stage(sink, spark.sql("select explode(array(repeat('ü', 5000), null)) as name, 3 as n"), 3)


def check_types(rows: list[dict[str, Any]]) -> None:
    [full] = [row for row in rows if row["i"] is not None]
    [empty] = [row for row in rows if row["i"] is None]
    assert set(empty.values()) == {None}
    assert (full["l"], full["s"], full["y"], full["n"]) == (2, 3, 4, Decimal("12.34"))
    assert (full["t"], full["bin"], full["day"]) == ("a/b c%", b"\x00\xff", dt.date(1, 1, 2))
    assert full["ntz"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - it has no zone
    assert full["at"].microsecond == 123456
    assert (full["a"], dict(full["m"]), full["st"]) == ([1, None], {"k": 1}, {"x": 1, "y": ["z"]})


@pytest.mark.parametrize("column", ["t", "day", "i", "b"])
def test_delta_partitions_hold_unusual_values_and_nulls(spark: SparkSession, tmp_path: Path, column: str) -> None:
    frame = spark.sql(ALL_TYPES).select("l", "t", "day", "i", "b")
    sink = DeltaSink(str(tmp_path / "t"), partition_by=[column]).bind(CONTEXT)
    sink.release([stage(sink, frame, 1)], 1)
    values = {row["l"]: row[column] for row in DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist()}
    wanted = {"t": "a/b c%", "day": dt.date(1, 1, 2), "i": 1, "b": True}[column]
    assert values == {2: wanted, None: None}


def instants(spark: SparkSession) -> DataFrame:
    """Instants around midnight, the end of a month and of a year, and summer time, in UTC and elsewhere; and none."""
    return spark.sql("""
        select id, timestamp_micros(id * 1000000 * 1237) as at, cast('2026-01-01' as date) + cast(id as int) as day,
          timestamp_ntz '1969-12-30 22:30:00' + make_dt_interval(0, cast(id as int)) as ntz,
          concat('été', id) as t, cast(id as int) - 20 as i
        from range(-40, 40) where id != 7
        union all select 7, null, null, null, null, null
    """)


@pytest.mark.parametrize(
    ("column", "transform"),
    [
        ("at", YearTransform()),
        ("at", MonthTransform()),
        ("at", DayTransform()),
        ("at", HourTransform()),
        ("ntz", DayTransform()),
        ("ntz", HourTransform()),
        ("ntz", MonthTransform()),
        ("day", MonthTransform()),
        ("day", YearTransform()),
        ("day", IdentityTransform()),
        ("i", TruncateTransform(10)),
        ("id", TruncateTransform(7)),
        ("t", TruncateTransform(4)),
        ("t", IdentityTransform()),
    ],
)
def test_iceberg_partitions_match_the_tables_transforms(
    spark: SparkSession, tmp_path: Path, zone: str, column: str, transform: Any
) -> None:
    """The library refuses a file with two values of one partition field."""
    warehouse = Warehouse(tmp_path)
    fields = [
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "at", TimestamptzType(), required=False),
        NestedField(3, "day", DateType(), required=False),
        NestedField(4, "ntz", TimestampType(), required=False),
        NestedField(5, "t", StringType(), required=False),
        NestedField(6, "i", IntegerType(), required=False),
    ]
    schema = Schema(*fields)
    spec = PartitionSpec(PartitionField(schema.find_field(column).field_id, 1000, transform, "p"))
    warehouse.catalog().create_table(NAME, schema, partition_spec=spec)
    sink = warehouse.bind()
    sink.release([stage(sink, instants(spark).repartition(2), 1)], 1)
    table = warehouse.table()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(-40, 40))
    tasks = list(table.scan().plan_files())
    nulls = [task for task in tasks if task.file.partition[0] is None]
    assert [task.file.record_count for task in nulls] == ([] if column == "id" else [1])
    assert len({task.file.partition[0] for task in tasks}) > 1
    for row in table.scan().to_arrow().to_pylist()[::9]:
        if row[column] is not None:  # in a wrong partition the row would be hidden from queries for its value
            matches = table.scan(row_filter=EqualTo(term=Reference(column), value=row[column])).to_arrow()
            assert row["id"] in matches["id"].to_pylist()


def test_rows_of_another_type_are_refused_before_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path / "t")).bind(CONTEXT)
    stage(sink, spark.sql("select 1 as i"), 1)
    with pytest.raises(TargetRefusedError, match="'i' is of type long, and integer"):
        stage(sink, spark.sql("select 1L as i"), 2)
    assert len(list((tmp_path / "t/_ckpt/orders/lake/staging").iterdir())) == 1


def test_spark_reads_the_released_files_of_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    """Without a Delta jar Spark reads the files that the table names."""
    sink = DeltaSink(str(tmp_path / "t")).bind(CONTEXT)
    sink.release([stage(sink, spark.range(5).toDF("id"), 1)], 1)
    files = DeltaTable(tmp_path / "t").file_uris()
    assert sorted(row.id for row in spark.read.parquet(*files).collect()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("transform", ["identity", "truncate[3]"])
def test_texts_that_spark_reads_as_null_have_their_own_partition(
    spark: SparkSession, tmp_path: Path, transform: str
) -> None:
    """Otherwise a file in a text's partition would contain nulls, and queries for nulls would skip it."""
    warehouse = Warehouse(tmp_path, made=True)
    warehouse.partition_by("city", transform=transform)
    values = ["", None, "__HIVE_DEFAULT_PARTITION__", "ü" * 300]
    frame = spark.createDataFrame(list(enumerate(values)), "id int, city string").coalesce(1)
    sink = warehouse.bind()
    sink.release([stage(sink, frame, 1)], 1)
    for number, value in enumerate(values):
        condition = IsNull(term=Reference("city")) if value is None else EqualTo(term=Reference("city"), value=value)  # type: ignore[arg-type]
        assert [row["id"] for row in warehouse.table().scan(condition).to_arrow().to_pylist()] == [number]


TURNED = """
    select {id}L as id, named_struct('street', 'Corso', 'city', 'Rome') as at,
      map('k', named_struct('street', 'Corso', 'city', 'Rome')) as by, array(named_struct('b', 2L, 'a', 1L)) as list
"""


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_nested_fields_are_matched_by_name(spark: SparkSession, tmp_path: Path, kind: str, mode: str) -> None:
    """The table was made from rows whose structs have their fields in another order."""
    given: dict[str, Any] = {"mode": mode, **({"key": ["id"]} if mode == "upsert" else {})}
    warehouse = Warehouse(tmp_path) if kind == "iceberg" else None
    bound = DeltaSink(str(tmp_path / "t"), **given).bind(CONTEXT) if warehouse is None else warehouse.bind(**given)
    first = spark.sql(
        "select 0L as id, named_struct('city', 'Oslo', 'street', 'Gate') as at, "
        "map('k', named_struct('city', 'Oslo', 'street', 'Gate')) as by, array(named_struct('a', 3L, 'b', 4L)) as list"
    )
    bound.release([stage(bound, first, 1)], 1)
    bound.release([stage(bound, spark.sql(TURNED.format(id=1)), 2)], 2)
    bound.release([stage(bound, spark.sql(TURNED.format(id=0 if mode == "upsert" else 2)), 3)], 3)
    table = DeltaTable(tmp_path / "t").to_pyarrow_table() if warehouse is None else warehouse.table().scan().to_arrow()
    rows = {row["id"]: row for row in table.to_pylist()}
    rome = {"city": "Rome", "street": "Corso"}
    assert len(rows) == (2 if mode == "upsert" else 3)
    for row in [row for row_id, row in rows.items() if row_id or mode == "upsert"]:
        assert (row["at"], dict(row["by"]), row["list"]) == (rome, {"k": rome}, [{"a": 1, "b": 2}])
