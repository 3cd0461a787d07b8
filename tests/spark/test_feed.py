"""A result partition that is fed to a consumer's query as a file-sink log: Spark reads exactly the fed files (R19)."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.attempt_feeds import delete_feeds_before
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.fed_partition import EDGES, FedPartition, flat
from tests.support.partition_folders import feed_folder
from tests.support.single_channel_feed import SingleChannelFeed

pytestmark = pytest.mark.slow


def test_spark_reads_fed_batches_in_order_over_compactions_and_restarts(partition: FedPartition) -> None:
    feed = partition.feed()
    for position in range(0, 70, 2):
        feed.add(position, partition.write(position))
    partition.write(70)  # published but not fed, because a barrier holds it back
    first = partition.read(feed, maxFilesPerTrigger=20)
    assert flat(first) == [*range(0, 70, 2)]
    assert feed.consume(partition.taken()) == 68
    assert not feed.has_unread()

    again = partition.feed()
    assert again.fed == 68
    again.consume(partition.taken())
    for position in range(70, 125, 2):
        again.add(position, partition.write(position))
    assert flat(partition.read(again)) == [*range(70, 125, 2)]
    assert flat(partition.read(partition.feed())) == []


def test_each_edge_reads_its_own_feed_in_nested_folders(partition: FedPartition) -> None:
    outer, inner = partition.feed("a__x"), partition.feed("b__y")
    outer.add(0, partition.write(0))
    inner.add(0, partition.batches[0])
    outer.add(1, partition.write(1))
    assert flat(partition.read(outer, "a__x")) == [0, 1]
    assert flat(partition.read(inner, "b__y")) == [0]


def test_unfed_files_are_invisible(partition: FedPartition) -> None:
    feed = partition.feed()
    partition.write(0)
    assert flat(partition.read(feed)) == []
    feed.add(0, partition.batches[0])
    assert flat(partition.read(feed)) == [0]


# ---- without Spark


def test_adding_a_batch_again_changes_nothing(partition: FedPartition) -> None:
    feed = partition.feed()
    feed.add(3, partition.write(3))
    names = partition.entries()
    feed.add(3, partition.batches[3])
    feed.add(2, partition.write(2))
    assert partition.entries() == names


def test_two_drivers_that_feed_the_same_log_agree(partition: FedPartition) -> None:
    for position in range(30):
        partition.write(position)
    before = partition.feed()
    for position in range(12):
        before.add(position, partition.batches[position])
    successor = partition.feed()
    for position in range(12, 15):
        before.add(position, partition.batches[position])  # this driver does not know that it is fenced
    for position in range(12, 30):
        successor.add(position, partition.batches[position])
    assert successor.fed == 29
    assert flat(partition.read(successor)) == [*range(30)]


def test_a_batch_fed_late_by_the_previous_driver_counts_as_read(partition: FedPartition) -> None:
    before, successor = partition.feed(), partition.feed()
    before.add(0, partition.write(0))
    paths = {f"{partition.base}/p/{partition.batches[0].files[0].path}".lstrip("/")}
    assert successor.consume(paths) == 0  # our query has read it before we checked
    successor.add(0, partition.batches[0])
    assert not successor.has_unread()
    assert successor.fed == 0


def test_consumed_files_are_left_out_of_the_next_compaction(partition: FedPartition) -> None:
    feed = partition.feed()
    for position in range(10):
        feed.add(position, partition.write(position))
        feed.consume({f"{partition.base}/p/{partition.batches[position].files[0].path}".lstrip("/")})
    newest = max(name for name in partition.entries() if name.endswith(".compact"))
    compact = partition.storage.read(f"{partition.log()}/{newest}").decode()
    assert len(compact.splitlines()) == 3  # the version, the count, and the file that was not consumed at that time


def test_a_long_feed_keeps_few_entries(partition: FedPartition) -> None:
    feed = partition.feed()
    data = partition.write(0)
    for position in range(200):
        feed.add(position, Batch(position, {}, files=data.files))
    assert len(partition.entries()) <= 22
    for _ in range(5):
        partition.feed()
    assert partition.feed().fed == 199


def test_r4_after_a_reset_the_feed_starts_from_nothing(partition: FedPartition) -> None:
    feed = partition.feed()
    for position in range(15):
        feed.add(position, partition.write(position))
    feed.reset()
    assert (feed.fed, feed.has_unread()) == (-1, False)
    feed = partition.feed()
    assert feed.fed == -1
    feed.add(4, partition.batches[4])
    assert flat(partition.read(feed)) == [4]


def test_r4_a_batch_read_before_a_reset_is_not_unread_when_fed_again(
    partition: FedPartition,
) -> None:
    feed = partition.feed()
    for position in range(3):
        feed.add(position, partition.write(position))
    assert flat(partition.read(feed)) == [0, 1, 2]
    feed.reset()
    assert feed.consume(partition.taken()) is None
    feed.add(2, partition.batches[2])
    assert not feed.has_unread()
    feed.add(3, partition.write(3))
    assert feed.has_unread()
    assert flat(partition.read(feed)) == [3]


# ---- several drivers: a fenced driver deletes nothing of its successor


def test_r8_a_reset_by_a_fenced_driver_leaves_its_successors_feed(partition: FedPartition) -> None:
    """The fenced driver is paused after its fence check.

    Its successor's feed survives whenever the driver resumes.
    """
    for position in range(40):
        partition.write(position)
    for fed in (0, 1, 9, 10, 25):
        overtaken = partition.feed()
        successor = partition.feed()
        successor.reset()
        for position in range(fed):
            successor.add(position, partition.batches[position])
        overtaken.reset()
        overtaken.add(7, partition.batches[7])
        assert visible(partition, successor) == [*range(fed)]
        for position in range(fed, 30):
            successor.add(position, partition.batches[position])
        assert visible(partition, successor) == [*range(30)]


def test_r8_batches_fed_by_a_fenced_driver_are_invisible(partition: FedPartition) -> None:
    for position in range(40):
        partition.write(position)
    before = partition.feed()
    for position in range(5):
        before.add(position, partition.batches[position])
    successor = partition.feed()
    for position in range(5, 33):
        before.add(position, partition.batches[position])  # over three compactions with their deletions
    assert visible(partition, successor) == [*range(5)]
    for position in range(5, 40):
        successor.add(position, partition.batches[position])
    assert flat(partition.read(successor)) == [*range(40)]


def test_r19_a_fenced_driver_does_not_continue_its_successors_feed(partition: FedPartition) -> None:
    for position in range(4):
        partition.write(position)
    before = partition.feed()
    before.add(0, partition.batches[0])
    path = feed_folder("p", EDGES, "a__x")
    successor = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, 0, "x"))
    for position in range(1, 4):
        successor.add(position, partition.batches[position])
    assert SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(2, 0, "x")).fed == 0


def test_r8_each_attempt_of_an_epoch_has_its_own_feed(partition: FedPartition) -> None:
    """The previous attempt's process still feeds its own feed, and no query reads that."""
    for position in range(4):
        partition.write(position)
    path = feed_folder("p", EDGES, "a__x")
    before = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, 0, "x"))
    before.add(0, partition.batches[0])
    successor = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, 1, "y"))
    before.add(1, partition.batches[1])
    assert successor.fed == 0
    for position in range(1, 4):
        successor.add(position, partition.batches[position])
    assert flat(partition.read(successor)) == [*range(4)]
    third = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, 2, "z"))
    assert third.fed == 3
    SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(4, 0, "d"))
    assert sorted(partition.storage.list(f"{path}/feeds")) == ["0003", "0003-01", "0003-02", "0004"]
    delete_feeds_before(partition.storage, path, 4)
    assert partition.storage.list(f"{path}/feeds") == ["0004"]


def test_r8_only_the_last_two_feeds_of_an_epoch_stay(partition: FedPartition) -> None:
    """A driver runs for months and loses its workers every hour.

    Without the clean-up each attempt's feed stays until the next driver. The previous attempt may still feed, so its
    feed stays and is read.
    """
    path = feed_folder("p", EDGES, "a__x")
    before = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, 0, "x"))
    before.edge.delete_earlier_feeds()
    for number in range(1, 15):
        before.add(number, partition.write(number))
        successor = SingleChannelFeed(partition.storage, path, "p", attempt=AttemptId(3, number, "x"))
        successor.edge.delete_earlier_feeds()
        before.edge.delete_earlier_feeds()  # late, without harm to the successor
        there = [f"0003-{attempt:02d}" if attempt else "0003" for attempt in (number - 1, number)]
        assert sorted(partition.storage.list(f"{path}/feeds")) == there
        before = successor
    assert before.fed == 14
    assert flat(partition.read(before)) == [*range(1, 15)]


def test_a_feed_is_read_again_if_the_previous_driver_deletes_entries(partition: FedPartition) -> None:
    for position in range(60):
        partition.write(position)
    before = partition.feed()
    for position in range(5):
        before.add(position, partition.batches[position])

    class Slow(WrappedStorage):
        """A storage during whose reads, after the listing, the previous driver adds entries."""

        def read(self, path: str) -> bytes:
            for position in range(before.fed + 1, 50):
                before.add(position, partition.batches[position])
            return super().read(path)

    successor = partition.feed(storage=Slow(partition.storage))
    assert successor.fed == 49
    assert visible(partition, successor) == [*range(50)]


def test_a_feed_shared_by_all_drivers_is_adopted(partition: FedPartition) -> None:
    before = partition.feed()
    for position in range(14):
        before.add(position, partition.write(position))
    for name in partition.entries():
        old = f"{feed_folder('p', EDGES, 'a__x')}/_spark_metadata/{name}"
        partition.storage.create(old, partition.storage.read(f"{partition.log()}/{name}"))
        partition.storage.delete(f"{partition.log()}/{name}")
    feed = partition.feed()
    assert feed.fed == 13
    feed.add(14, partition.write(14))
    assert flat(partition.read(feed)) == [*range(15)]


def test_feeds_of_earlier_drivers_are_deleted(partition: FedPartition) -> None:
    path = feed_folder("p", EDGES, "a__x")
    for position in range(3):
        partition.feed().add(position, partition.write(position))
    delete_feeds_before(partition.storage, path, 2)
    assert [
        name for name in partition.storage.list(f"{path}/feeds") if partition.storage.files(f"{path}/feeds/{name}")
    ] == ["0002", "0003"]


def visible(partition: FedPartition, feed: SingleChannelFeed) -> list[int]:
    """Return the ids that Spark would list at this moment."""
    frame = partition.spark.read.schema("id long").option("recursiveFileLookup", True).parquet(feed.location)
    return sorted(row["id"] for row in frame.collect())
