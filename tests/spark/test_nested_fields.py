"""Fields inside columns of a union are matched by name, in structs, arrays and maps, with and without history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.plan.planned_splits import as_planned
from airflow_provider_ckpt.spark.query.errors import SchemaChangedError, UnfitSourceError, UnsupportedQueryError
from airflow_provider_ckpt.spark.query.unions import Union, unite, with_like_fields, without_ended
from tests.spark.harness import World

BOTH = Operator("both", "transform", "jobs.py:1")
ROME, OSLO = {"city": "Rome", "street": "Corso"}, {"city": "Oslo", "street": "Gate"}

CASES: dict[str, tuple[str, str, Any, Any]] = {
    "struct": ("struct<city:string, street:string>", "struct<street:string, city:string>", ROME, OSLO),
    "array": ("array<struct<city:string, street:string>>", "array<struct<street:string, city:string>>", [ROME], [OSLO]),
    "map value": (
        "map<string, struct<city:string, street:string>>",
        "map<string, struct<street:string, city:string>>",
        {"home": ROME},
        {"home": OSLO},
    ),
    "nested": (
        "struct<at:array<struct<n:bigint, in:map<string, struct<city:string, street:string>>>>, id:bigint>",
        "struct<id:int, at:array<struct<in:map<string, struct<street:string, city:string>>, n:int>>>",
        {"at": [{"n": 1, "in": {"home": ROME}}], "id": 1},
        {"at": [{"n": 2, "in": {"home": OSLO}}], "id": 2},
    ),
    "null": ("struct<city:string, street:string>", "struct<street:string, city:string>", ROME, None),
    "null inside": (
        "array<struct<city:string, street:string>>",
        "array<struct<street:string, city:string>>",
        [ROME],
        [None, {"city": None, "street": "Gate"}],
    ),
    "wider": ("struct<a:bigint, b:bigint>", "struct<b:int, a:int>", {"a": 1, "b": 2}, {"a": 3, "b": 4}),
    "other case": ("struct<City:string, street:string>", "struct<street:string, city:string>", None, OSLO),
}


def frame_of(spark: SparkSession, schema: str, value: Any) -> DataFrame:
    return spark.createDataFrame([{"value": value}], f"value {schema}")


def values(frame: DataFrame) -> list[Any]:
    return [row.asDict(recursive=True)["value"] for row in frame.collect()]


def lower_case(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.lower(): lower_case(item) for key, item in value.items()}
    return [lower_case(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES)
def test_both_inputs_of_a_union_keep_their_values(spark: SparkSession, case: str) -> None:
    first, second, of_history, of_live = CASES[case]
    frames = {"history": frame_of(spark, first, of_history), "live": frame_of(spark, second, of_live)}
    assert [*map(lower_case, values(unite(with_like_fields(BOTH, frames))))] == [
        lower_case(of_history),
        lower_case(of_live),
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_rest_of_a_union_keeps_its_values(spark: SparkSession, case: str) -> None:
    first, second, of_history, of_live = CASES[case]
    frames = {"history": frame_of(spark, first, of_history), "live": frame_of(spark, second, of_live)}
    whole = unite(with_like_fields(BOTH, frames))
    union = Union(whole.schema, {uid: frame.schema for uid, frame in frames.items()})
    [left] = without_ended({"live": frames["live"]}, union)
    assert [*map(lower_case, values(left))] == [lower_case(of_live)]
    assert left.schema.simpleString() == whole.schema.simpleString()


@pytest.mark.parametrize(
    "other",
    ["struct<city:string, road:string>", "struct<city:string>", "struct<city:string, street:string, zip:string>"],
)
@pytest.mark.parametrize("within", ["{}", "array<{}>", "map<string, {}>"])
def test_structs_with_other_fields_are_refused(spark: SparkSession, within: str, other: str) -> None:
    frames = {
        "history": frame_of(spark, within.format("struct<city:string, street:string>"), None),
        "live": frame_of(spark, within.format(other), None),
    }
    with pytest.raises(UnsupportedQueryError, match=r"column 'value' of 'live' holds a struct of city.*'history'"):
        with_like_fields(BOTH, frames)


@pytest.fixture
def exact_case(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def test_fields_differ_by_case_in_a_case_sensitive_session(spark: SparkSession, exact_case: None) -> None:
    first, second, _, _ = CASES["other case"]
    frames = {"history": frame_of(spark, first, None), "live": frame_of(spark, second, None)}
    with pytest.raises(UnsupportedQueryError, match="street, city instead of City, street"):
        with_like_fields(BOTH, frames)
    two = "struct<a:string, A:string>", "struct<A:string, a:string>"
    value = {"a": "small", "A": "large"}
    frames = {"history": frame_of(spark, two[0], value), "live": frame_of(spark, two[1], value)}
    assert values(unite(with_like_fields(BOTH, frames))) == [value, value]


def test_a_struct_changed_after_the_end_of_history_is_refused(spark: SparkSession) -> None:
    first, second, of_history, of_live = CASES["wider"]
    frames = {"history": frame_of(spark, first, of_history), "live": frame_of(spark, second, of_live)}
    whole = unite(with_like_fields(BOTH, frames))
    union = Union(whole.schema, {"live": frame_of(spark, "struct<b:int, c:int>", None).schema})
    with pytest.raises(SchemaChangedError, match="'live'"):
        without_ended({"live": frame_of(spark, "struct<b:int, c:int>", None)}, union)


def test_splits_keep_their_values_and_other_fields_are_refused(spark: SparkSession) -> None:
    first, second, _, two = CASES["map value"]
    planned = frame_of(spark, first, None).schema
    split = Split("a", "a")
    assert values(as_planned(BOTH, split, frame_of(spark, second, two), planned)) == [two]
    for other in ("map<string, struct<street:string, town:string>>", "map<string, struct<street:string, city:int>>"):
        with pytest.raises(UnfitSourceError, match="has other columns than the first one"):
            as_planned(BOTH, split, frame_of(spark, other, None), planned)


# ---- whole jobs

TYPES = pa.struct([("city", pa.string()), ("street", pa.string())])
TURNED = pa.struct([("street", pa.string()), ("city", pa.string())])


def job_of(world: World, chain: bool) -> Job:
    job = Job("addresses")

    @job.source(bounded=True, max_files_per_trigger=1, chain=chain)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(
            "id long, at struct<city:string, street:string>, by map<string, struct<city:string, street:string>>"
        ).parquet(world.path("history"))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(
            "id long, by map<string, struct<street:string, city:string>>, at struct<street:string, city:string>"
        ).parquet(world.path("live"))

    @job.transform(inputs=[history, live])
    def both(rows: DataFrame) -> DataFrame:
        return rows.select("id", F.col("at"), F.col("by"))

    job.sink("out", both, FileSink(world.path("out")))
    return job


def put(world: World, folder: str, first: int, inner: pa.DataType) -> list[int]:
    rows = [{"id": number, "at": address(number), "by": [("k", address(number))]} for number in range(first, first + 2)]
    schema = pa.schema([("id", pa.int64()), ("at", inner), ("by", pa.map_(pa.string(), inner))])
    world.put(folder, f"{first:06d}", rows, schema)
    return [first, first + 1]


def address(number: int) -> dict[str, str]:
    return {"city": f"city {number}", "street": f"street {number}"}


@pytest.mark.slow
@pytest.mark.parametrize("chain", [True, False], ids=["inline", "own query"])
def test_addresses_are_right_before_and_after_history_is_left_out(world: World, chain: bool) -> None:
    expected = put(world, "history", 0, TYPES) + put(world, "history", 10, TYPES) + put(world, "live", 100, TURNED)
    more: list[int] = []

    def left_out() -> bool:
        if any(world.state().dropped.values()) and not more:
            more.extend(put(world, "live", 200, TURNED))
        return bool(more) and world.released_count() >= 8

    run = world.run(job_of(world, chain), world.ask("stop", left_out))
    assert (run.status, run.cause) == ("STOPPED", None)
    more += put(world, "live", 300, TURNED)
    run = world.run(job_of(world, chain), world.drain_at(10))
    assert (run.status, run.cause) == ("FINISHED", None)
    rows = {row["id"]: row for row in world.released()}
    assert sorted(rows) == sorted(expected + more)
    for number, row in rows.items():
        assert (row["at"], dict(row["by"])) == (address(number), {"k": address(number)})
