"""One channel of an edge whose producer has several subtasks: all of them are named in one feed.

A consumer's query reads such an edge by one source, whatever the number of producers: so its Spark folder stays good
when that number changes, and it has one source to leave out at the end. Files of one producer are read in the order of
its log; those of several are in no order.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sparkfiles.feed import EdgeFeed, root_of
from airflow_provider_ckpt.storage.storage import Storage


class ChannelFeed:
    """``partition``: of the producer; ``feed`` is shared with the other channels of the edge, and is reset by whoever
    makes it."""

    def __init__(self, storage: Storage, feed: EdgeFeed, partition: str) -> None:
        self._feed, self._partition, self._root = feed, partition, root_of(storage, partition)

    @property
    def location(self) -> str:
        return self._feed.location

    @property
    def fed(self) -> int:
        return self._feed.fed_of(self._partition)

    def add(self, position: int, batch: Batch) -> None:
        self._feed.add(position, batch, self._partition)

    def may_feed_again(self, batch: Batch) -> None:
        self._feed.may_feed_again(batch, self._partition)

    def consumed(self, paths: Collection[str]) -> int | None:
        return self._feed.consumed([path for path in paths if path.startswith(self._root)])

    def refuse_damaged(self, paths: Collection[str]) -> None:
        self._feed.refuse_damaged([path for path in paths if path.startswith(self._root)])

    def has_unread(self) -> bool:
        return self._feed.has_unread(self._partition)
