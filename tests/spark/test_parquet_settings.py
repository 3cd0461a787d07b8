"""Files between two queries, and copies for several sinks, do not obey the user's settings for Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

AT = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=timezone.utc)
TYPE = "spark.sql.parquet.outputTimestampType"
SETTINGS = {
    TYPE: "TIMESTAMP_MILLIS",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
    "spark.sql.files.maxRecordsPerFile": "1",
    "spark.sql.parquet.compression.codec": "gzip",
}


@pytest.fixture(autouse=True)
def restored_settings(spark: SparkSession) -> Iterator[None]:
    before = {key: str(spark.conf.get(key)) for key in SETTINGS}
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


def sink(world: World, uid: str, form: str) -> FileSink:
    if form == "parquet":
        return FileSink(world.path(uid))
    return FileSink(world.path(uid), "json", options={"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"})


def lines(world: World, uid: str) -> list[Any]:
    rows = [json.loads(line) for path in Path(world.path(uid)).glob("*.json") for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["id"]))


def job(world: World, *sinks: str, apart: bool = False, form: str = "json") -> Job:
    job = Job("copying")

    @job.source(bounded=True, chain=not apart)
    def history(read: Any) -> DataFrame:
        frame: DataFrame = read.schema("id long, at timestamp").parquet(world.path("in"))
        return frame

    @job.transform(inputs=[history])
    def same(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", "unix_micros(at) AS micros", "date'1500-01-01' AS old")

    for uid in sinks:
        job.sink(uid, same, sink(world, uid, form))
    return job


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_one_sink_or_two_get_the_same_microseconds(world: World, mode: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    for number in range(3):
        world.put("in", f"{number}", [{"id": 2 * number, "at": AT}, {"id": 2 * number + 1, "at": AT}], schema)
    rows_by_sink = {}
    for name, sinks, apart in (("one", ["a"], False), ("two", ["b", "c"], False), ("edge", ["d"], True)):
        world.job_id = f"{name}-{mode}"
        assert world.run(job(world, *sinks, apart=apart), mode=mode, conf=SETTINGS).status == "FINISHED"
        for uid in sinks:
            rows_by_sink[uid] = lines(world, uid)
    (expected, *others) = rows_by_sink.values()
    assert [row["id"] for row in expected] == list(range(6))
    assert {row["at"][-9:] for row in expected} == {"05.123456"}
    assert {row["micros"] % 1_000_000 for row in expected} == {123456}
    assert others == [expected] * 3


@pytest.mark.parametrize("sinks", [("a",), ("b", "c")])
def test_the_users_own_parquet_files_obey_the_users_settings(world: World, sinks: tuple[str, ...]) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    world.put("in", "1", [{"id": 1, "at": AT}], schema)
    assert world.run(job(world, *sinks, form="parquet"), conf={TYPE: "TIMESTAMP_MILLIS"}).status == "FINISHED"
    for uid in sinks:
        (path,) = Path(world.path(uid)).glob("*.parquet")
        assert parquet.read_schema(path).field("at").type == pa.timestamp("ms", tz="UTC")
        assert world.released(uid)[0]["micros"] % 1_000_000 == 123456
