"""The jobs that the tests run over the folders of a :class:`World`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sinks.sink import Sink
from tests.spark.harness import World

IDS = "id long, k long"


def mixed(
    world: World,
    *,
    chain: bool = True,
    release: Any = "every_checkpoint",
    sinks: tuple[str, ...] = ("out",),
    sink: Callable[[str], Sink] = FileSink,
    column: str = "twice",
    **history_options: Any,
) -> Job:
    """Return a job that reads history and a live feed into the sink "out"."""
    job = Job("mixed")

    @job.source(bounded=True, chain=chain, **{"max_files_per_trigger": 1, **history_options})
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source(max_files_per_trigger=2)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[history, live])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn(column, F.col("id") * 2)

    for uid in sinks:
        job.sink(uid, doubled, sink(world.path(uid)), release=release)
    return job


def bounded(world: World, *, chain: bool = True) -> Job:
    """Return a job that reads only history, through two transforms."""
    job = Job("bounded")

    @job.source(bounded=True, max_files_per_trigger=1, chain=chain)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history])
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path("out")))
    return job


def bounded_with_ticks(world: World) -> Job:
    """Return a job with history through an edge and a bounded source whose end is in no file list."""
    job = Job("ticking")

    @job.source(bounded=True, max_files_per_trigger=1, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source(bounded=True, ends="available_now")
    def ticks(read: DataStreamReader) -> DataFrame:
        return read.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr("value AS id", "0L AS k")

    @job.transform(inputs=[history, ticks])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))
    return job


def depths(world: World, sink: Callable[[str], Sink] = FileSink) -> Job:
    """Return a job with history and a sink in one query. Two queries later history is united with the live feed."""
    job = Job("depths")

    @job.source(bounded=True, max_files_per_trigger=1, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[history], chain=False)
    def cleaned(rows: DataFrame) -> DataFrame:
        return rows.where("id >= 0")

    @job.transform(inputs=[cleaned, live])
    def merged(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("raw", history, sink(world.path("raw")))
    job.sink("out", merged, sink(world.path("out")))
    return job


def joined(world: World, *, watermarks: bool = False) -> Job:
    """Return a job that joins live orders with customers from history.

    History cannot be left out after its end.
    """
    job = Job("joined")
    watermark = ("ts", "1 second") if watermarks else None

    @job.source(bounded=True, watermark=watermark)
    def history(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("history")))

    @job.source(watermark=watermark)
    def live(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("live")))

    @job.transform(inputs={"orders": live, "customers": history})
    def matched(orders: DataFrame, customers: DataFrame) -> DataFrame:
        return orders.select("id", "k").join(customers.select(F.col("k"), F.col("id").alias("customer")), "k")

    job.sink("out", matched, FileSink(world.path("out")))
    return job


def windows(
    world: World,
    *,
    chain: bool = True,
    live_too: bool = True,
    sink: Callable[[str], Sink] = FileSink,
    length: str = "10 seconds",
) -> Job:
    """Return a job that counts rows in windows. A row's id is its event time in seconds."""
    job = Job("windows")
    inputs: list[Any] = []

    @job.source(bounded=True, chain=chain, max_files_per_trigger=1, watermark=("ts", "1 second"))
    def history(read: DataStreamReader) -> DataFrame:
        return timed(read.schema(IDS).parquet(world.path("history")))

    inputs.append(history)
    if live_too:

        @job.source(max_files_per_trigger=1, watermark=("ts", "1 second"))
        def live(read: DataStreamReader) -> DataFrame:
            return timed(read.schema(IDS).parquet(world.path("live")))

        inputs.append(live)

    @job.transform(inputs=inputs)
    def counts(rows: DataFrame) -> DataFrame:
        counted = rows.groupBy(F.window("ts", length)).agg(F.count("*").alias("n"))
        return counted.select(F.unix_seconds("window.start").alias("id"), "n")

    job.sink("out", counts, sink(world.path("out")))
    return job


def timed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("ts", F.timestamp_seconds("id"))


def stamped(world: World, attempt: int) -> Job:
    """Return a job whose output differs from one attempt to the next, as with a clock or an unordered limit."""
    job = Job("stamped")

    @job.source(bounded=True, chain=False)
    def history(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history], chain=False)
    def stamps(rows: DataFrame) -> DataFrame:
        return rows.withColumn("attempt", F.lit(attempt))

    job.sink("out", stamps, FileSink(world.path("out")))
    return job


def write_version(world: World, name: str, sources: str, function: str) -> str:
    path = Path(world.path("versions")) / f"{name}.py"
    head = "from pyspark.sql import functions as F\nfrom airflow_provider_ckpt import Job\njob = Job('v2')\n"
    path.write_text(f"{head}{sources}\n{function}\n")
    return f"{path}:job"
