"""Several producers in one feed.

The feed keeps the order of each producer and counts each producer separately.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, normal_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from tests.spark.harness import write_rows

PARTITIONS = ("v/0/partition", "v/1/partition", "v/10/partition")


class Producers:
    def __init__(self, base: Path) -> None:
        self.base, self.storage = base, open_storage(base)

    def write(self, number: int, position: int) -> Batch:
        name = f"a__x/data/0001-n-{position}/part-0.parquet"
        path = self.base / PARTITIONS[number] / name
        write_rows(path, [{"id": 100 * number + position}])
        return Batch(position, {}, files=(PartitionFile(name, path.stat().st_size),))

    def feeds(self, epoch: int, *, partitions: tuple[str, ...] = PARTITIONS) -> list[ChannelFeed]:
        feed = EdgeFeed(self.storage, f"{partitions[0]}/a__x", *partitions, attempt=AttemptId(epoch, 0, "x"))
        return [ChannelFeed(feed, partition) for partition in partitions]

    def path(self, number: int, position: int) -> str:
        return normal_path(str(self.base / PARTITIONS[number] / f"a__x/data/0001-n-{position}/part-0.parquet"))


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


def read(spark: SparkSession, producers: Producers, feed: ChannelFeed) -> list[int]:
    ids: list[int] = []
    reader = spark.readStream.name("a__x").schema("id long").option("recursiveFileLookup", True)
    query = reader.parquet(feed.location).writeStream.option("checkpointLocation", str(producers.base / "c"))
    query = query.foreachBatch(lambda frame, number: ids.extend(row["id"] for row in frame.collect()))
    query.trigger(availableNow=True).start().awaitTermination()
    return sorted(ids)


def taken(producers: Producers) -> set[str]:
    return SeenFiles(open_storage(producers.base / "c"), "sources/a__x").advance(10_000)


def test_a_query_reads_present_and_later_producers_by_one_source(spark: SparkSession, producers: Producers) -> None:
    first = producers.feeds(1, partitions=PARTITIONS[:2])
    first[0].add(1, producers.write(0, 1))
    first[1].add(7, producers.write(1, 7))
    first[0].add(2, producers.write(0, 2))
    assert read(spark, producers, first[0]) == [1, 2, 107]
    assert [feed.consume(taken(producers)) for feed in first] == [2, 7]
    first[1].add(8, producers.write(1, 8))

    second = producers.feeds(2)  # the job resumes with one more producer
    assert [feed.has_unread() for feed in second] == [False, True, False] or second[0].has_unread()
    for feed in second:
        feed.consume(taken(producers))
    assert [feed.has_unread() for feed in second] == [False, True, False]
    second[2].add(1, producers.write(2, 1))  # lower than the numbers that were read of the other producers
    assert read(spark, producers, second[0]) == [108, 201]


def test_fed_batches_are_counted_for_each_producer(producers: Producers) -> None:
    feeds = producers.feeds(1)
    feeds[0].add(5, producers.write(0, 5))
    feeds[1].add(3, producers.write(1, 3))
    assert [feed.fed for feed in feeds] == [5, 3, -1]
    feeds[0].add(5, producers.write(0, 5))  # a no-op
    both = {producers.path(0, 5), producers.path(1, 3)}
    assert feeds[1].consume(both) == 3
    assert [feed.has_unread() for feed in feeds] == [True, False, False]
    assert feeds[2].consume(both) is None
    assert [feed.fed for feed in producers.feeds(2)] == [5, 3, -1]  # the next driver


def test_damage_is_reported_for_the_damaged_partition_only(producers: Producers) -> None:
    feeds = producers.feeds(1)
    for number in (0, 1):
        feeds[number].add(1, producers.write(number, 1))
    both = [producers.path(0, 1), producers.path(1, 1)]
    for feed in feeds:
        feed.refuse_damaged(both)
    Path("/" + producers.path(1, 1)).unlink()
    feeds[0].refuse_damaged(both)
    with pytest.raises(PartitionFilesDamagedError, match="v/1/partition"):
        feeds[1].refuse_damaged(both)


def test_a_producer_added_while_the_query_runs_is_fed_too(spark: SparkSession, producers: Producers) -> None:
    """The feed of one producer takes every path for its own.

    It distinguishes the producers once a second one joins (R21).
    """
    (only,) = producers.feeds(1, partitions=PARTITIONS[:1])
    only.add(1, producers.write(0, 1))
    assert read(spark, producers, only) == [1]
    assert only.consume(taken(producers)) == 1
    new = only.for_new_partition(PARTITIONS[2])
    assert (new.fed, new.has_unread(), new.location) == (-1, False, only.location)
    new.add(1, producers.write(2, 1))
    only.add(2, producers.write(0, 2))
    assert (only.has_unread(), new.has_unread()) == (True, True)
    assert read(spark, producers, only) == [2, 201]
    after = taken(producers)
    assert (only.consume(after), new.consume(after)) == (2, 1)
    assert (only.has_unread(), new.has_unread()) == (False, False)
    again = producers.feeds(2, partitions=(PARTITIONS[0], PARTITIONS[2]))
    for feed in again:
        feed.consume(taken(producers))
    assert [(feed.fed, feed.has_unread()) for feed in again] == [(2, False), (1, False)]
