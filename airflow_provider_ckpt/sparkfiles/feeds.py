"""Where the feeds of an edge are, one for each driver, and which entries they hold: as Spark's file sink names them."""

from __future__ import annotations

from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.storage.storage import Storage

COMPACT_EVERY = 10
"""Spark's default interval; readers find the compact entries by it."""


class Feeds:
    """The feeds of one edge, one for each driver."""

    def __init__(self, storage: Storage, path: str, epoch: int) -> None:
        self._storage = storage
        self._path = path
        self._epoch = epoch
        self.own = f"{path}/feeds/{epoch:04d}"

    def newest(self) -> str:
        """That of the last driver before this one which had begun it; of the time before epochs, if there is none."""
        epochs = sorted(filter(str.isdigit, self._storage.list(f"{self._path}/feeds")), key=int, reverse=True)
        for name in epochs:
            feed = f"{self._path}/feeds/{name}"
            if int(name) < self._epoch and self.numbers(feed):
                return feed
        return self._path

    def whole(self, feed: str) -> list[int]:
        """The entries from the newest compact one on. Raises SparkFolderLostError if one is missing: what it named
        would never be read."""
        for _ in range(2):  # the driver before may be at work, and a list made meanwhile show a later entry only
            numbers = self.numbers(feed)
            first = max(filter(is_compact, numbers), default=0)
            there = [number for number in numbers if number >= first]
            lost = sorted({*range(first, max(there, default=-1) + 1)} - set(there))
            if not lost:
                return there
        raise SparkFolderLostError(uri=self._storage.full_uri(entry_path(feed, lost[0])), problem="is missing")

    def numbers(self, feed: str) -> list[int]:
        names = (name.partition(".")[0] for name in self._storage.list(f"{feed}/_spark_metadata"))
        return sorted(map(int, filter(str.isdigit, names)))


def delete_feeds_before(storage: Storage, path: str, epoch: int) -> None:
    """Those of the drivers before ``epoch``, whose own has begun. After a look at the fence."""
    for name in storage.list(f"{path}/feeds"):
        if name.isdigit() and int(name) < epoch:
            storage.delete_tree(f"{path}/feeds/{name}")
    storage.delete_tree(f"{path}/_spark_metadata")


def entry_path(feed: str, number: int) -> str:
    return f"{feed}/_spark_metadata/{number}{'.compact' if is_compact(number) else ''}"


def is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0
