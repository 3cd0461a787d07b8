"""A row has the same values for all sinks and queries that read it."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

pytestmark = pytest.mark.slow


def drawn(world: World) -> Job:
    job = Job("drawn")

    @job.source(bounded=True, max_files_per_trigger=1)
    def rows(read: DataStreamReader) -> DataFrame:
        return read.schema("id long, k long, code string, note string").parquet(world.path("in"))

    @job.transform(inputs=[rows])
    def values(rows: DataFrame) -> DataFrame:
        return rows.select(
            "*", F.rand().alias("rand"), F.expr("uuid()").alias("uuid"), F.current_timestamp().alias("now")
        )

    @job.transform(inputs=[values])
    def again(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", values, FileSink(world.path("out")))
    job.sink("copy", values, FileSink(world.path("copy")))
    job.sink("behind", again, FileSink(world.path("behind")))
    return job


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_all_readers_of_an_operator_get_the_same_rows(world: World, mode: str) -> None:
    for first in (0, 5, 10):
        rows = [
            {"id": number, "k": number % 3, "code": "ab", "note": f"n{number}"} for number in range(first, first + 5)
        ]
        world.put("in", f"{first:06d}", rows)
    run = world.run(drawn(world), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    outputs = [{row["id"]: row for row in world.released(sink)} for sink in ("out", "copy", "behind")]
    assert sorted(outputs[0]) == list(range(15))
    assert outputs[0] == outputs[1] == outputs[2]
    assert len({row["uuid"] for row in outputs[0].values()}) == 15
    assert {row["code"] for row in outputs[0].values()} == {"ab"}
