"""Partition with a feed, and queries that read it."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from tests.spark.harness import write_rows
from tests.support.partition_folders import data_folder, feed_folder
from tests.support.single_channel_feed import SingleChannelFeed

EDGES = ["b__y", "a__x"]


class FedPartition:
    """The data files of a producer and the queries that read them."""

    def __init__(self, spark: SparkSession, base: Path) -> None:
        self.spark, self.base = spark, base
        self.storage: Storage = open_storage(base)
        self.batches: dict[int, Batch] = {}
        self.epoch = 0

    def write(self, position: int) -> Batch:
        inside = data_folder("p", EDGES)[2:] + f"/0001-n {position}-ü"
        write_rows(self.base / "p" / inside / "part-0.parquet", [{"id": position}])
        size = (self.base / "p" / inside / "part-0.parquet").stat().st_size
        self.batches[position] = Batch(position, {}, files=(PartitionFile(f"{inside}/part-0.parquet", size),))
        return self.batches[position]

    def feed(self, edge: str = "a__x", storage: Storage | None = None) -> SingleChannelFeed:
        """Return the feed of the next driver."""
        self.epoch += 1
        return SingleChannelFeed(
            storage or self.storage, feed_folder("p", EDGES, edge), "p", attempt=AttemptId(self.epoch, 0, "x")
        )

    def entries(self) -> list[str]:
        """Return the entries of the newest driver's feed."""
        return self.storage.list(f"{self.log()}")

    def log(self) -> str:
        return f"{feed_folder('p', EDGES, 'a__x')}/feeds/{self.epoch:04d}/_spark_metadata"

    def read(self, feed: SingleChannelFeed, edge: str = "a__x", **options: object) -> list[list[int]]:
        """Run the edge's query to the end of the feed; return the ids of each batch."""
        batches: list[list[int]] = []

        def collect(frame: DataFrame, batch_id: int) -> None:
            batches.append([row["id"] for row in frame.collect()])

        reader = self.spark.readStream.name(edge).schema("id long").option("recursiveFileLookup", True)
        frame = reader.options(**options).parquet(feed.location)  # type: ignore[arg-type]
        query = frame.writeStream.option("checkpointLocation", str(self.base / f"c_{edge}")).foreachBatch(collect)
        query.trigger(availableNow=True).start().awaitTermination()
        return batches

    def taken(self, edge: str = "a__x") -> set[str]:
        return SeenFiles(open_storage(self.base / f"c_{edge}"), f"sources/{edge}").advance(10_000)


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]
