"""Repartitioning of state by Spark's ``repartition`` (R21), with settings that hold for it alone."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.spark.task.streaming.state_repartition import WHILE_REPARTITIONING, repartition_state
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from tests.spark.harness import World

pytestmark = pytest.mark.slow

(COUNTED,) = WHILE_REPARTITIONING


def test_a_repartition_counts_no_keys_and_the_next_query_does(spark: SparkSession, world: World) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    world.put("in", "a", [{"id": number} for number in range(30)])
    folder = SparkFolder(open_storage(world.base), "v/1")
    assert run(spark, world, folder) == dict.fromkeys(range(30), 1)
    assert keys_of(world) == 30

    assert repartition_state(spark, folder, 3)
    assert keys_of(world) == -3, "each of three parts reports an unknown count"
    assert spark.conf.get(COUNTED, None) is None

    spark.conf.set("spark.sql.shuffle.partitions", "3")
    world.put("in", "b", [{"id": number} for number in range(20, 40)])
    progress: list[Any] = []
    assert run(spark, world, folder, progress) == {number: 1 + (number < 30) for number in range(20, 40)}
    assert progress[-1]["stateOperators"][0]["numRowsTotal"] == keys_of(world) == 40


def run(spark: SparkSession, world: World, folder: SparkFolder, progress: list[Any] | None = None) -> dict[int, int]:
    """Run the query to its end; return its counts by id."""
    counts: dict[int, int] = {}

    def collect(frame: DataFrame, batch_id: int) -> None:
        counts.update((row["id"], row["n"]) for row in frame.collect())

    stream = spark.readStream.name("live").schema("id long").parquet(world.path("in"))
    writer = stream.groupBy("id").agg(F.count("*").alias("n")).writeStream.outputMode("update")
    writer = writer.option("checkpointLocation", folder.location).foreachBatch(collect)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    if progress is not None:
        progress.append(query.lastProgress)
    return counts


def keys_of(world: World) -> int:
    """Return the number of keys in the newest snapshots of all partitions."""
    total = 0
    for part in (world.base / "v/1/state/0").iterdir():
        snapshots = sorted(part.glob("*.zip"), key=lambda path: int(path.name.partition("_")[0]))
        if snapshots:
            with zipfile.ZipFile(snapshots[-1]) as snapshot:
                total += json.loads(snapshot.read("metadata").decode().splitlines()[1])["numKeys"]
    return total
