"""One channel of an edge's feed. The feed contains the files of all producers of the edge.

The consumer's query reads the edge as one source, so its Spark folder stays valid when the number of producers changes.
Files of one producer are read in the order of its log. Files of several producers have no common order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.subtasklog.records import Batch


class ChannelFeed:
    """The part of a feed that belongs to one producer. Its methods ignore normal paths of other channels.

    ``feed`` is the feed that all channels of the edge share. The creator of the feed also resets it.
    """

    def __init__(self, feed: EdgeFeed, partition: str) -> None:
        self._feed, self._partition = feed, partition

    def for_new_partition(self, partition: str) -> ChannelFeed:
        """Return the channel of a new producer of the edge. No file of this producer was fed before."""
        self._feed.add_partition(partition)
        return ChannelFeed(self._feed, partition)

    @property
    def _root(self) -> str:
        """Start of the normal paths of this channel; empty if the edge has no other channel."""
        return self._feed.root(self._partition)

    @property
    def location(self) -> str:
        """The URI that the consumer's query reads."""
        return self._feed.location

    @property
    def fed(self) -> int:
        """Position of the last fed batch in the producer's log; -1 if no batch was fed."""
        return self._feed.fed(self._partition)

    def add(self, position: int, batch: Batch) -> None:
        self._feed.add(self._partition, position, batch)

    def note_partly_read(self, batch: Batch) -> None:
        self._feed.note_partly_read(self._partition, batch)

    def possible_paths(self, batches: Iterable[Batch]) -> frozenset[str]:
        """Return the normal paths of all unread files of the feed, and of the files of ``batches`` of the producer."""
        return self._feed.unread.union(*(self._feed.paths(self._partition, batch) for batch in batches))

    @property
    def folder(self) -> str:
        """Start of the normal paths of the producer's files."""
        return self._feed.folder(self._partition)

    def consume(self, paths: Collection[str]) -> int | None:
        root = self._root
        return self._feed.consume([path for path in paths if path.startswith(root)])

    def refuse_damaged(self, paths: Collection[str]) -> None:
        root = self._root
        self._feed.refuse_damaged([path for path in paths if path.startswith(root)])

    def has_unread(self) -> bool:
        return self._feed.has_unread(self._partition)
