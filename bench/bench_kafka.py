"""Speed of Kafka: releases against a bare producer, and history read by the library against a plain query.

    python bench/bench_kafka.py [--rows 500000] [--rounds 3]

sink    records of about 100 bytes, staged as Parquet: ``KafkaSink.release`` (read the files, one transaction, the
        ledger) against ``produce_batch`` of the same records from memory, with the same settings and no transaction
source  a bounded topic read by the library (frozen end, filter, checkpoints each second, files released) against a
        plain query over the same topic with the same limit, which writes Parquet in ``foreachBatch``. Both are timed
        from the start of the first micro-batch to the end of the last one

The bench starts a broker on this machine (it needs mvn, see tests/kafka/jars.py). Runs alternate. The ratios count, not
the absolute figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa
from confluent_kafka import Producer
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
from airflow_provider_ckpt.sinks.kafka.client import KafkaClient
from airflow_provider_ckpt.sinks.kafka.ledger import Ledger
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from bench.measure import Progress
from tests.kafka import jobs
from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.topics import Topics
from tests.spark.harness import World
from tests.support.spark_driver import started

CONTEXT = SinkContext("bench", "out")
FILES = 10
LIMIT = 100_000


def records(rows: int) -> pa.Table:
    numbers = range(rows)
    keys = [str(number).encode() for number in numbers]
    values = [b'{"id": %d, "k": %d, "more": "%s"}' % (number, number % 3, b"x" * 60) for number in numbers]
    return pa.table({"key": keys, "value": values})


def released(topics: Topics, folder: Path, table: pa.Table) -> float:
    topic = topics.make(4)
    client = KafkaClient("out", topics.servers, {}, 600)
    storage = open_storage(folder)
    sink, staging = BoundKafkaSink(topic, client, CONTEXT, storage), KafkaStaging(storage, CONTEXT, topic)
    sink.prepare()
    ledger = Ledger(client, CONTEXT, topic).id()

    def staged(number: int, part: pa.Table) -> dict[str, Any]:
        name = f"a1-{number}-n{number}{topic}"
        file = folder / staging.place(name) / "part-0.parquet"
        file.parent.mkdir(parents=True)
        parquet.write_table(part, file)
        return staging.handle(name, len(part), [(file.name, file.stat().st_size)], ledger, 0)

    sink.release([staged(0, table.slice(0, 10))], 1)  # makes the producer, and reads the ledger
    each = len(table) // FILES
    handles = [staged(number + 1, table.slice(number * each, each)) for number in range(FILES)]
    begun = time.monotonic()
    rows = sink.release(handles, 2)["rows"]
    return rows / (time.monotonic() - begun)


def produced(topics: Topics, table: pa.Table) -> float:
    topic = topics.make(4)
    settings = {"linger.ms": 20, "compression.type": "lz4", "batch.num.messages": 50_000, "batch.size": 1_000_000}
    queue = {"queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 262_144}
    producer = Producer({"bootstrap.servers": topics.servers, **settings, **queue})
    producer.list_topics(topic, timeout=30)
    batches = [batch.to_pylist() for batch in table.to_batches(10_000)]
    begun = time.monotonic()
    for batch in batches:
        while len(producer) > 400_000:
            producer.poll(0.02)
        producer.produce_batch(topic, batch)
        producer.poll(0)
    assert producer.flush(120) == 0
    return len(table) / (time.monotonic() - begun)


def of_batches(spark: SparkSession, rows: int, run: Callable[[], None]) -> float:
    progress = Progress()
    spark.streams.addListener(progress)
    try:
        run()
        time.sleep(1)  # the event of the last batch comes after its end
    finally:
        spark.streams.removeListener(progress)
    return rows / (max(one.end for one in progress.batches) - min(one.start for one in progress.batches))


def by_library(spark: SparkSession, topics: Topics, topic: str, rows: int, folder: Path) -> float:
    world = World(folder)

    def run() -> None:
        job = jobs.history_job(world, topics, topic, maxOffsetsPerTrigger=str(LIMIT))
        assert world.run(job, mode="streaming", checkpoint_interval=1).status == "FINISHED"

    found = of_batches(spark, rows, run)
    assert world.released_count() == rows
    return found


def by_plain_query(spark: SparkSession, topics: Topics, topic: str, rows: int, folder: Path) -> float:
    def write(frame: DataFrame, batch: int) -> None:
        frame.write.parquet(str(folder / f"out/{batch}"))

    def run() -> None:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(LIMIT)}
        frame = jobs.read_topic(spark.readStream.name("history"), topics.servers, topic, **options)
        stream = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(write)
        stream.trigger(availableNow=True).start().awaitTermination()

    found = of_batches(spark, rows, run)
    assert spark.read.parquet(str(folder / "out/*")).count() == rows
    return found


def table_of(name: str, library: list[float], plain: list[float]) -> None:
    ratios = [one / other for one, other in zip(library, plain, strict=True)]
    print(
        f"{name:8}", *(f"{one / 1000:9.0f}" for one in (statistics.median(library), statistics.median(plain))), end=""
    )
    print(f"{statistics.median(ratios):8.2f}   {min(ratios):.2f} to {max(ratios):.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-") as folder, Broker(Path(folder) / "broker") as broker:
        topics, table = Topics(broker.servers), records(given.rows)
        print(f"{'':8}  library    alone  ratio   of {given.rounds} rounds (thousand rows a second)")
        produced(topics, table.slice(0, 1000))
        rounds = range(given.rounds)
        pairs = [(released(topics, Path(folder) / f"s{n}", table), produced(topics, table)) for n in rounds]
        table_of("sink", [one for one, _ in pairs], [other for _, other in pairs])
        jars = ",".join(map(str, connector_jars()))
        spark = started(Path(folder) / "spark", {"spark.jars": jars})
        topic = topics.make(4)
        topics.put(topic, range(given.rows))
        # a first run of each warms up Java
        by_plain_query(spark, topics, topic, given.rows, Path(folder) / "pwarm")
        by_library(spark, topics, topic, given.rows, Path(folder) / "lwarm")
        times = []
        for n in rounds:
            library = by_library(spark, topics, topic, given.rows, Path(folder) / f"l{n}")
            times.append((library, by_plain_query(spark, topics, topic, given.rows, Path(folder) / f"p{n}")))
        table_of("source", [one for one, _ in times], [other for _, other in times])
        spark.stop()


if __name__ == "__main__":
    main()
