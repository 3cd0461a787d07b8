"""Folders and entry numbers of an edge's feeds, one for each attempt. Entries are named as in Spark's file sink."""

from __future__ import annotations

import re

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.source_log import COMPACT, COMPACT_EVERY
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage

_NAME = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


class AttemptFeeds:
    """The feeds of one edge, one for each attempt of its consumer.

    The first attempt of an epoch has the feed ``feeds/<epoch>``, a later attempt ``feeds/<epoch>-<number>``.
    """

    def __init__(self, storage: Storage, path: str, attempt: AttemptId) -> None:
        self._storage = storage
        self._path = path
        self._order = (attempt.epoch, attempt.number)
        number = f"-{attempt.number:02d}" if attempt.number else ""
        self.own = f"{path}/feeds/{attempt.epoch:04d}{number}"

    def newest(self) -> str:
        """Return the folder of the newest feed that an earlier attempt has begun; the edge's folder without one."""
        for order, feed in sorted(_list_feeds(self._storage, self._path), reverse=True):
            if order < self._order and self.numbers(feed):
                return feed
        return self._path

    def delete_before(self, first_needed: str) -> None:
        """Delete the feeds older than the feed ``first_needed``.

        This attempt must have read ``first_needed`` and begun its own feed. Later attempts read the newest feed that
        has begun. A previous attempt that still runs has a newer feed than the deleted feeds.
        """
        feeds = _list_feeds(self._storage, self._path)
        first_order = next((order for order, feed in feeds if feed == first_needed), (0, 0))
        for order, feed in feeds:
            if order < first_order:
                with best_effort(feed):
                    self._storage.delete_tree(feed)

    def complete_entries(self, feed: str) -> list[int]:
        """Return the numbers of a feed's entries from the newest compact entry on.

        Raises SparkFolderLostError if an entry is missing, because its files would never be read.
        """
        for _ in range(2):  # the previous driver may still write, so a listing may miss an entry before a later one
            numbers = self.numbers(feed)
            first = max(filter(is_compact, numbers), default=0)
            present = [number for number in numbers if number >= first]
            missing = sorted({*range(first, max(present, default=-1) + 1)} - set(present))
            if not missing:
                return present
        raise SparkFolderLostError(uri=self._storage.full_uri(entry_path(feed, missing[0])), problem="is missing")

    def numbers(self, feed: str) -> list[int]:
        """Return the numbers of a feed's entries, ascending."""
        names = (name.partition(".")[0] for name in self._storage.list(f"{feed}/_spark_metadata"))
        return sorted(map(int, filter(str.isdigit, names)))


def delete_feeds_before(storage: Storage, path: str, epoch: int) -> None:
    """Delete the feeds of drivers before ``epoch``. Call it when later feeds have begun and the fence was checked."""
    for order, feed in _list_feeds(storage, path):
        if order < (epoch, 0):
            storage.delete_tree(feed)
    storage.delete_tree(f"{path}/_spark_metadata")


def _list_feeds(storage: Storage, path: str) -> list[tuple[tuple[int, int], str]]:
    """Return ((epoch, number) of the attempt, path of its feed). Folders with other names are ignored."""
    matches = [(_NAME.fullmatch(name), name) for name in storage.list(f"{path}/feeds")]
    return [
        ((int(match[1]), int(match[2] or 0)), f"{path}/feeds/{name}") for match, name in matches if match is not None
    ]


def entry_path(feed: str, number: int) -> str:
    return f"{feed}/_spark_metadata/{number}{COMPACT if is_compact(number) else ''}"


def is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0
