"""Where the feeds of an edge are, one for each attempt, and which entries they hold: in the names of Spark's sink."""

from __future__ import annotations

import re

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage

_NAME = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
COMPACT_EVERY = 10
"""Spark's default interval; readers find the compact entries by it."""


class AttemptFeeds:
    """The feeds of one edge, one for each attempt of its consumer: ``feeds/<epoch>``, and ``feeds/<epoch>-<number>`` of
    an attempt that follows another one in its epoch."""

    def __init__(self, storage: Storage, path: str, attempt: AttemptId) -> None:
        self._storage = storage
        self._path = path
        self._order = (attempt.epoch, attempt.number)
        number = f"-{attempt.number:02d}" if attempt.number else ""
        self.own = f"{path}/feeds/{attempt.epoch:04d}{number}"

    def newest(self) -> str:
        """That of the last attempt before this one which had begun it; of the time before epochs, if there is none."""
        for order, feed in sorted(_found(self._storage, self._path), reverse=True):
            if order < self._order and self.numbers(feed):
                return feed
        return self._path

    def delete_before(self, feed: str) -> None:
        """Those that are older than ``feed``, which this attempt has taken up, when its own has begun: whoever comes
        takes up the newest that has. Its attempt before, if it is alive yet, has taken up a newer one than these."""
        found = _found(self._storage, self._path)
        taken_up = next((order for order, one in found if one == feed), (0, 0))
        for order, one in found:
            if order < taken_up:
                with best_effort(one):
                    self._storage.delete_tree(one)

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
    for order, feed in _found(storage, path):
        if order < (epoch, 0):
            storage.delete_tree(feed)
    storage.delete_tree(f"{path}/_spark_metadata")


def _found(storage: Storage, path: str) -> list[tuple[tuple[int, int], str]]:
    """(epoch and number of the attempt, its feed); what is not named so is not ours."""
    names = [(_NAME.fullmatch(name), name) for name in storage.list(f"{path}/feeds")]
    return [((int(one[1]), int(one[2] or 0)), f"{path}/feeds/{name}") for one, name in names if one is not None]


def entry_path(feed: str, number: int) -> str:
    return f"{feed}/_spark_metadata/{number}{'.compact' if is_compact(number) else ''}"


def is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0
