"""The columns that a transform gets from a union.

Their names, order and types stay the same when an ended source is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.jobmaster import recorded_plan
from airflow_provider_ckpt.journal.events import PlanRecorded
from airflow_provider_ckpt.sinks.file.file_writer import Format
from airflow_provider_ckpt.spark.query.analysed_plan import has_watermark
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError
from airflow_provider_ckpt.spark.query.unions import Union, read_unions, unite, without_ended
from tests.spark.harness import Line, Run, World
from tests.spark.jobs import timed

CASES = {
    "order": ("id long, k long", "k long, id long"),
    "wider history": ("id long, k long", "id int, k long"),
    "wider live": ("id int, k long", "id long, k long"),
    "order and type": ("id long, k long", "k int, id int"),
    "other case": ("ID long, k long", "k long, id long"),
}
WHOLE = {"order": "id,k", "wider history": "id,k", "wider live": "id,k", "order and type": "id,k", "other case": "ID,k"}
Shape = Callable[[DataFrame], DataFrame]


def job_of(
    world: World,
    history_schema: str,
    live_schema: str,
    *,
    fmt: Format = "parquet",
    chain: bool = True,
    shape: Shape = lambda rows: rows,
    called: list[str] | None = None,
    output_mode: Any = "append",
) -> Job:
    job = Job("united")

    @job.source(bounded=True, max_files_per_trigger=1, chain=chain)
    def history(read: DataStreamReader) -> DataFrame:
        if called is not None:
            called.append("history")
        return read.schema(history_schema).parquet(world.path("history"))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(live_schema).parquet(world.path("live"))

    @job.transform(inputs=[history, live], output_mode=output_mode)
    def both(rows: DataFrame) -> DataFrame:
        return shape(rows)

    job.sink("out", both, FileSink(world.path("out"), format=fmt))
    return job


def put(world: World, folder: str, name: str, schema: str, ids: list[int]) -> None:
    """Write rows {id, k: id + 500} with the schema's order and types."""
    columns = [column.split() for column in schema.split(", ")]
    types = {"int": pa.int32(), "long": pa.int64()}
    values = [{"id": number, "k": number + 500} for number in ids]
    rows = [{column: row[column.lower()] for column, _ in columns} for row in values]
    world.put(folder, name, rows, pa.schema([(column, types[kind]) for column, kind in columns]))


def fill(world: World, history_schema: str, live_schema: str) -> list[int]:
    for number in range(2):
        put(world, "history", f"h{number}", history_schema, [10 * number, 10 * number + 1])
    put(world, "live", "l0", live_schema, [1000, 1001])
    return [0, 1, 10, 11, 1000, 1001]


def history_is_left_out(world: World) -> bool:
    return any(world.state().dropped.values())


def first_run(world: World, job: Job, rows: int = 6) -> Run:
    run = world.run(job, world.ask("stop", lambda: history_is_left_out(world) and world.released_count() >= rows))
    assert (run.status, run.cause) == ("STOPPED", None)
    assert history_is_left_out(world)
    return run


def finish(world: World, job: Job, rows: int) -> None:
    run = world.run(job, world.drain_at(rows))
    assert (run.status, run.cause) == ("FINISHED", None)


def stop_after(world: World, job: Job, rows: int) -> None:
    run = world.run(job, world.ask("stop", lambda: world.released_count() >= rows))
    assert (run.status, run.cause) == ("STOPPED", None)


def csv_lines(world: World) -> list[str]:
    return sorted(line for path in Path(world.path("out")).glob("part-*") for line in path.read_text().split())


def parquet_schemas(world: World) -> set[str]:
    files = [parquet.ParquetFile(path) for path in Path(world.path("out")).glob("part-*")]
    return {", ".join(f"{field.name} {field.type}" for field in file.schema_arrow) for file in files}


def lines_of(ids: list[int]) -> list[str]:
    return sorted(f"{number},{number + 500}" for number in ids)


# ---- the next run


@pytest.mark.slow
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
@pytest.mark.parametrize("case", CASES)
def test_an_unchanged_job_keeps_its_columns_without_history(world: World, case: str, chain: bool) -> None:
    """The run calls no function of history and does not need its folder."""
    schemas, called = CASES[case], list[str]()
    fill(world, *schemas)
    first_run(world, job_of(world, *schemas, chain=chain))
    shutil.rmtree(world.path("history"))
    put(world, "live", "l9", schemas[1], [2000, 2001])
    finish(world, job_of(world, *schemas, chain=chain, called=called), 8)
    assert called == []
    [names] = parquet_schemas(world)
    first, second = WHOLE[case].split(",")
    assert names == f"{first} int64, {second} int64"
    rows = sorted(tuple(row.values()) for row in world.released())
    assert rows == [(number, number + 500) for number in (0, 1, 10, 11, 1000, 1001, 2000, 2001)]


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_csv_output_keeps_its_column_order_without_history(world: World, chain: bool) -> None:
    schemas = CASES["order"]
    expected = fill(world, *schemas)
    first_run(world, job_of(world, *schemas, fmt="csv", chain=chain))
    for name, start in (("l8", 2000), ("l9", 3000)):  # a run can also resume from the plan of a run without history
        put(world, "live", name, schemas[1], [start, start + 1])
        expected += [start, start + 1]
        stop_after(world, job_of(world, *schemas, fmt="csv", chain=chain), len(expected))
    assert csv_lines(world) == lines_of(expected)


# ---- the same run


@pytest.mark.slow
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
@pytest.mark.parametrize("fmt", ["csv", "parquet"])
@pytest.mark.parametrize("positional", [False, True], ids=["as it comes", "by position"])
def test_rows_after_the_end_of_history_keep_their_columns(
    world: World, fmt: Format, chain: bool, positional: bool
) -> None:
    schemas = CASES["order and type"]
    expected = [*fill(world, *schemas), 2000, 2001]
    asked: list[str] = []

    def on_line(line: Line) -> None:
        if not asked and history_is_left_out(world) and world.released_count() >= 6:
            asked.append("rows")
            put(world, "live", "l9", schemas[1], [2000, 2001])
        elif asked == ["rows"] and world.released_count() >= 8:
            asked.append("drain")
            world.request("drain")

    shape: Shape = (lambda rows: rows.toDF("a", "b")) if positional else (lambda rows: rows)
    run = world.run(job_of(world, *schemas, fmt=fmt, chain=chain, shape=shape), on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    if fmt == "csv":
        assert csv_lines(world) == lines_of(expected)
    else:
        assert parquet_schemas(world) == {"a int64, b int64" if positional else "id int64, k int64"}
        assert sorted(tuple(row.values()) for row in world.released()) == [
            (number, number + 500) for number in expected
        ]


def test_state_keys_keep_their_types_when_history_is_left_out(world: World) -> None:
    """A key of another type would be another key, and Spark could not read the state."""
    schemas = ("id long, k long", "k int, id int")
    fill(world, *schemas)
    counts: Shape = lambda rows: rows.groupBy("id").agg(F.count("k").alias("n"))  # noqa: E731
    first_run(world, job_of(world, *schemas, shape=counts, output_mode="update"))
    put(world, "live", "l9", schemas[1], [10, 3000])
    finish(world, job_of(world, *schemas, shape=counts, output_mode="update"), 8)
    assert max(row["n"] for row in world.released() if row["id"] == 10) == 2
    assert parquet_schemas(world) == {"id int64, n int64"}


def test_windows_keep_their_event_time_without_history(world: World) -> None:
    """One row falls into a window that was open when history was left out, and another one into a later window.

    A row's id is its time.
    """
    schemas = ("id long, k long", "k int, id int")

    def job() -> Job:
        job = Job("windows")
        history = job.source(bounded=True, uid="history", max_files_per_trigger=1, watermark=("ts", "1 second"))(
            lambda read: timed(read.schema(schemas[0]).parquet(world.path("history")))
        )
        live = job.source(uid="live", max_files_per_trigger=1, watermark=("ts", "1 second"))(
            lambda read: timed(read.schema(schemas[1]).parquet(world.path("live")))
        )

        @job.transform(inputs=[history, live])
        def counts(rows: DataFrame) -> DataFrame:
            counted = rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.max("id").alias("last"))
            return counted.select("last", "k")

        job.sink("out", counts, FileSink(world.path("out")))
        return job

    fill(world, *schemas)
    first = world.run(job(), world.ask("stop", lambda: history_is_left_out(world)))
    assert first.status == "STOPPED"
    put(world, "live", "l9", schemas[1], [1002, 2000])
    run = world.run(job(), world.ask("drain", lambda: world.read_up_to("counts", "live") >= 1))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(row["last"] for row in world.released()) == [0, 1, 10, 11, 1000, 1001, 1002, 2000]
    assert parquet_schemas(world) == {"last int64, k int64"}


def test_the_rest_of_a_larger_union_keeps_its_columns(world: World) -> None:
    """History has a transform of its own in the same query and precedes two live feeds.

    Neither feed has the columns of the whole union.
    """

    def job() -> Job:
        job = Job("three")

        @job.source(bounded=True, max_files_per_trigger=1)
        def history(read: DataStreamReader) -> DataFrame:
            return read.schema("id long, k long").parquet(world.path("history"))

        @job.source
        def live(read: DataStreamReader) -> DataFrame:
            return read.schema("k int, id int").parquet(world.path("live"))

        @job.source
        def more(read: DataStreamReader) -> DataFrame:
            return read.schema("k int, id int").parquet(world.path("more"))

        cleaned = job.transform(inputs=[history], uid="cleaned")(lambda rows: rows.where("id >= 0"))
        both = job.transform(inputs=[cleaned, live, more], uid="both")(lambda rows: rows.toDF("a", "b"))
        job.sink("out", both, FileSink(world.path("out"), format="csv"))
        return job

    expected = fill(world, "id long, k long", "k int, id int")
    world.path("more")
    first_run(world, job())
    put(world, "more", "m9", "k int, id int", [2000, 2001])
    finish(world, job(), 8)
    assert csv_lines(world) == lines_of([*expected, 2000, 2001])


# ---- changes that are still refused


@pytest.mark.parametrize(
    ("live", "named"),
    [
        ("k long, id long, more long", "'both'"),
        ("k long, id string", "'both'"),
        ("k long, id int", "'both'"),
        ("k long", "'live'"),
        ("k long, other long", "'live'"),
    ],
)
def test_a_changed_column_of_the_rest_of_a_union_is_refused(world: World, live: str, named: str) -> None:
    schemas = CASES["order"]
    fill(world, *schemas)
    first_run(world, job_of(world, *schemas))
    with pytest.raises(SchemaChangedError, match=named):
        world.run(job_of(world, schemas[0], live))


def test_a_renamed_column_used_by_position_is_refused(world: World) -> None:
    """The output would have the same columns with the values of others."""
    schemas = CASES["order"]
    fill(world, *schemas)
    by_position: Shape = lambda rows: rows.toDF("a", "b")  # noqa: E731
    first_run(world, job_of(world, *schemas, shape=by_position))
    with pytest.raises(SchemaChangedError, match=r"'live'.*id:bigint"):
        world.run(job_of(world, schemas[0], "k long, other long", shape=by_position))


def test_an_additional_unused_column_may_be_read(world: World) -> None:
    schemas = CASES["order"]
    fill(world, *schemas)
    seen: Shape = lambda rows: rows.select("id", "k")  # noqa: E731
    first_run(world, job_of(world, *schemas, shape=seen))
    put(world, "live", "l9", schemas[1], [2000, 2001])
    more = "more long, k long, id long"
    for rows in (8, 10):
        stop_after(world, job_of(world, schemas[0], more, shape=seen), rows)
        put(world, "live", f"m{rows}", schemas[1], [3000 + rows, 4000 + rows])
    assert sorted(row["id"] for row in world.released()) == [0, 1, 10, 11, 1000, 1001, 2000, 2001, 3008, 4008]


def test_a_journal_without_unions_resumes_only_with_the_same_order(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some journals have no recorded unions.

    The same order of columns continues, and another order is refused by name.
    """

    def without_unions(*fields: Any) -> PlanRecorded:
        plan = PlanRecorded(*fields)
        assert plan.definition is not None
        vertices = {uid: replace(vertex, unions=()) for uid, vertex in plan.definition.vertices.items()}
        return replace(plan, definition=replace(plan.definition, vertices=vertices))

    schemas = CASES["order"]
    fill(world, *schemas)
    with monkeypatch.context() as patch:
        patch.setattr(recorded_plan, "PlanRecorded", without_unions)
        first_run(world, job_of(world, *schemas))
    with pytest.raises(SchemaChangedError, match="'both'"):
        world.run(job_of(world, *schemas))
    put(world, "live", "l9", schemas[1], [2000, 2001])
    finish(world, job_of(world, schemas[0], "id long, k long"), 8)


# ---- the frame itself


def stream(spark: SparkSession, world: World, name: str, schema: str) -> DataFrame:
    return spark.readStream.name(name).schema(schema).parquet(world.path(name))


def union_of(**frames: DataFrame) -> Union:
    return Union(unite([*frames.values()]).schema, {uid: frame.schema for uid, frame in frames.items()})


def test_event_time_stays_on_its_column(spark: SparkSession, world: World) -> None:
    one = stream(spark, world, "one", "id long, ts timestamp").withWatermark("ts", "1 hour")
    two = stream(spark, world, "two", "ts timestamp, id int").withWatermark("ts", "1 hour")
    union = union_of(one=one, two=two)
    [left] = without_ended({"two": two}, union)
    assert [(field.name, field.dataType.simpleString()) for field in left.schema] == [
        ("id", "bigint"),
        ("ts", "timestamp"),
    ]
    assert left.schema["ts"].metadata == two.schema["ts"].metadata != {}
    assert has_watermark(left.groupBy(F.window("ts", "1 day")).count())


def test_a_frame_with_the_columns_of_the_union_is_unchanged(spark: SparkSession, world: World) -> None:
    one, two = (stream(spark, world, name, "id long, `a.b` struct<x: int>") for name in ("one", "two"))
    [left] = without_ended({"two": two}, union_of(one=one, two=two))
    assert left is two


def test_nested_and_quoted_columns_keep_their_types(spark: SparkSession, world: World) -> None:
    one = stream(spark, world, "one", "`a.b` array<bigint>, `c``d` struct<x: bigint>, e decimal(38, 10)")
    two = stream(spark, world, "two", "e decimal(38, 20), `c``d` struct<x: int>, `a.b` array<int>")
    three = stream(spark, world, "three", "`c``d` struct<x: int>, `a.b` array<int>, e int")
    union = union_of(one=one, two=two, three=three)
    for left in ({"two": two}, {"three": three}, {"two": two, "three": three}):
        united = unite(without_ended(left, union)).schema
        assert united.simpleString() == union.schema.simpleString()


def test_another_nullability_needs_no_cast(spark: SparkSession, world: World) -> None:
    one = stream(spark, world, "one", "id long, n long")
    two = stream(spark, world, "two", "id long").withColumn("n", F.lit(1).cast("long"))
    assert not two.schema["n"].nullable
    [left] = without_ended({"two": two}, union_of(one=one, two=two))
    assert left is two


def test_columns_differ_by_case_in_a_case_sensitive_session(spark: SparkSession, world: World) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        one = stream(spark, world, "one", "id long, ID string")
        two = stream(spark, world, "two", "ID string, id int")
        [left] = without_ended({"two": two}, union_of(one=one, two=two))
        assert left.schema.simpleString() == "struct<id:bigint,ID:string>"
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_recorded_union_is_read_back_unchanged() -> None:
    schema, own = (
        StructType([StructField("id", kind), StructField("nested", ArrayType(kind))])
        for kind in (LongType(), IntegerType())
    )
    union = Union(schema, {"live": own})
    assert read_unions((union.recorded("both", "rows"),)) == {("both", "rows"): union}
