"""One channel of an edge, as its feed shows it to the consumer: several producers of an edge are named in one feed.

A consumer's query reads such an edge by one source, whatever the number of producers: so its Spark folder stays good
when that number changes, and it has one source to leave out at the end. Files of one producer are read in the order of
its log; those of several are in no order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed


class ChannelFeed:
    """``partition``: of the producer, one of the feed's; ``feed`` is shared with the other channels of the edge, and is
    reset by whoever makes it. Paths are normal ones; those of other channels are passed over."""

    def __init__(self, feed: EdgeFeed, partition: str) -> None:
        self._feed, self._partition = feed, partition

    def beside(self, partition: str) -> ChannelFeed:
        """One more channel of the edge: of a producer that it has got, and of which nothing was fed."""
        self._feed.add_partition(partition)
        return ChannelFeed(self._feed, partition)

    @property
    def _root(self) -> str:
        """Empty while there is no other channel."""
        return self._feed.root(self._partition)

    @property
    def location(self) -> str:
        """What the consumer's query reads: a URI of Spark's."""
        return self._feed.location

    @property
    def fed(self) -> int:
        """Highest position of the producer's log that was fed, -1 for none."""
        return self._feed.fed(self._partition)

    def add(self, position: int, batch: Batch) -> None:
        self._feed.add(self._partition, position, batch)

    def may_feed_again(self, batch: Batch) -> None:
        self._feed.may_feed_again(self._partition, batch)

    def may_name(self, batches: Iterable[Batch]) -> frozenset[str]:
        """Normal paths of what the feed names, and of what ``batches`` of the producer would have it name."""
        return self._feed.unread.union(*(self._feed.paths(self._partition, batch) for batch in batches))

    @property
    def folder(self) -> str:
        """What the normal paths of the producer's files begin with."""
        return self._feed.folder(self._partition)

    def consumed(self, paths: Collection[str]) -> int | None:
        root = self._root
        return self._feed.consumed([path for path in paths if path.startswith(root)])

    def refuse_damaged(self, paths: Collection[str]) -> None:
        root = self._root
        self._feed.refuse_damaged([path for path in paths if path.startswith(root)])

    def has_unread(self) -> bool:
        return self._feed.has_unread(self._partition)
