"""Tables that a job finds or creates, in its driver, before it stages anything."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import DeltaSink, Job
from airflow_provider_ckpt.sinks.errors import TargetRefusedError
from tests.spark.harness import World

pytestmark = pytest.mark.slow


def job(world: World) -> Job:
    made = Job("tables")

    @made.source(bounded=True)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema("id long, k long").parquet(world.path("history"))

    made.sink("out", history, DeltaSink(world.path("table")))
    return made


def test_rows_unfit_for_the_table_are_refused_before_anything_is_written(world: World) -> None:
    world.put_ids("history", files=1, each=3)
    columns = pa.schema([("id", pa.int32()), ("k", pa.int64())])
    DeltaTable.create(world.path("table"), Schema.from_arrow(columns))
    with pytest.raises(TargetRefusedError, match="'id' is of type long, and integer"):
        world.run(job(world))
    assert not (Path(world.path("table")) / "_ckpt").exists()
    assert world.everything_under_root() == []


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_table_is_created_and_gets_every_row_once(world: World, mode: str) -> None:
    wanted = world.put_ids("history", files=2, each=5)
    world.run(job(world), mode=mode)
    assert sorted(DeltaTable(world.path("table")).to_pyarrow_table()["id"].to_pylist()) == sorted(wanted)
