"""The feed by which a consumer's query reads a result partition: a log in the form of Spark's file sink.

Spark's file source reads exactly the files that a ``_spark_metadata`` log names. So one small file makes a published
batch of the producer visible to the consumer, and no code of this package runs in the executors. Batches after a
barrier are not named before the snapshot (R19).

Each attempt of the consumer has its own feed, in a folder named after the attempt. The feed starts with the files that
the previous attempt had fed and the query has not read. So an overtaken attempt cannot change the feed of its successor
(R4, R8).

The data of a partition with several consumers are below one folder for each edge (``partition/<edge>/<edge>/data``).
:meth:`~..model.graph.JobGraph.edge_folder` names the folder of a feed. It need not be above the files, because Spark
searches for them recursively.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from urllib.parse import quote

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles import feed_entry
from airflow_provider_ckpt.sparkfiles.attempt_feeds import AttemptFeeds, entry_path, is_compact
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.source_log import COMPACT_EVERY
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import UNREADABLE
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.lost_entries import refuse_damaged
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile

_EPOCH_MS = 1_600_000_000_000
_STEP_MS = 1_000


class EdgeFeed:
    """The feed of one edge for one attempt of the consumer. Each :class:`ChannelFeed` feeds and reads one partition.

    Create the feed before the consumer's Spark folder is copied. Then files that an earlier attempt feeds after the
    copy are fed again. ``partitions`` are the folders to which PartitionFile paths are relative. Each partition belongs
    to one producer, and its files are fed in the order of the producer's log.
    """

    def __init__(self, storage: Storage, path: str, *partitions: str, attempt: AttemptId) -> None:
        self._storage = storage
        self._feeds = AttemptFeeds(storage, path, attempt)
        self._path = self._feeds.own
        self._partitions = partitions
        self._roots = {_root_of(storage, partition): partition for partition in partitions}
        self._next = 0
        self._predecessor: tuple[str, int] = ("", -1)
        """The feed from which this feed started, and the number of the last entry that was read there."""
        self._lines: dict[str, str] = {}
        self._positions: dict[str, dict[str, int]] = {partition: {} for partition in partitions}
        """Partition → normal path → log position, for the unread files."""
        self._fed = dict.fromkeys(partitions, -1)
        self._read_before: set[str] = set()
        """Normal paths of files that the query has already read, and that will be fed again."""
        self._partly_read: frozenset[str] = frozenset()
        """Normal paths of the files of batches that the query has read in part, and that will be fed again."""
        self._unfed: frozenset[str] = frozenset()
        """Partitions of which no file was fed. Their files may be fed again although the query has read them."""
        self._continue_previous()

    def add_partition(self, partition: str) -> None:
        """Add the partition of a new producer of the edge, unless it is known. No file of a new partition was fed."""
        if partition in self._partitions:
            return
        self._partitions = (*self._partitions, partition)
        self._roots[_root_of(self._storage, partition)] = partition
        self._positions[partition], self._fed[partition] = {}, -1
        self._unfed |= {partition}

    def fed(self, partition: str) -> int:
        """Return the position of the last fed batch in the log of the partition's producer; -1 without one."""
        return self._fed[partition]

    def root(self, partition: str) -> str:
        """Return the start of the normal paths of the partition's files; empty if the edge has no other partition."""
        return self.folder(partition) if len(self._partitions) > 1 else ""

    def folder(self, partition: str) -> str:
        """Return the start of the normal paths of the partition's files."""
        return _root_of(self._storage, partition)

    @property
    def location(self) -> str:
        return self._storage.spark_uri(self._path)

    def add(self, partition: str, position: int, batch: Batch) -> None:
        """Make the batch at ``position`` of the producer's log visible to the query. Repeated calls change nothing."""
        if position <= self._fed[partition]:
            return
        lines = [self._line(partition, position, index, file.path, file.size) for index, file in enumerate(batch.files)]
        compact = is_compact(self._next)
        self._write([*(self._lines.values() if compact else ()), *lines])
        for line in lines:
            self._remember(line)
        self._fed[partition] = position
        if compact:
            self._delete_before(self._next - 1 - COMPACT_EVERY)

    def note_partly_read(self, partition: str, batch: Batch) -> None:
        """Remember the last batch that the query has read in part, and that will be fed again.

        Its files that were read do not count as unread, even if the previous feed has lost their entry.
        """
        self._partly_read |= self.paths(partition, batch)

    def paths(self, partition: str, batch: Batch) -> set[str]:
        """Return the normalized paths of the batch's files."""
        return {f"{self.folder(partition)}{file.path}" for file in batch.files}

    @property
    def unread(self) -> frozenset[str]:
        """Normalized paths of the unread files. Until a batch is fed or read, all files of the feed."""
        return frozenset(self._lines)

    def _delete_before(self, number: int) -> None:
        """Delete entries before ``number``. Two compact entries must include them, because Spark may read the first."""
        for entry in self._feeds.numbers(self._path):
            if entry < number:
                self._storage.delete(entry_path(self._path, entry))

    def consume(self, paths: Collection[str]) -> int | None:
        """Forget the files that a published batch has read. ``paths`` are their normal paths.

        Return their highest position in the producer's log; None if no position is known.
        """
        positions = self._positions_fed_late([path for path in paths if path not in self._lines])
        positions += [self._positions[self._partition_of(path)].pop(path) for path in paths if path in self._lines]
        for path in paths:
            self._lines.pop(path, None)
        return max(positions, default=None)

    def refuse_damaged(self, paths: Collection[str]) -> None:
        """Refuse damaged files before a batch reads them. ``paths`` are their normal paths.

        Raises PartitionFilesDamagedError.
        """
        for root, partition in self._roots.items():
            unread = [path for path in paths if path in self._lines and path.startswith(root)]
            files = [PartitionFile(path[len(root) :], json.loads(self._lines[path])["size"]) for path in unread]
            if files:
                refuse_damaged(self._storage, partition, files)

    def has_unread(self, partition: str) -> bool:
        return bool(self._positions[partition])

    def reset(self) -> None:
        """Remove all files from the feed before the query starts. The files may be fed again.

        Call this when a restore has made files void, or when no earlier query of the subtask has read files.
        """
        self._clear()
        self._read_before, self._unfed = set(), frozenset(self._partitions)
        self._write_first_entry()

    def delete_earlier_feeds(self) -> None:
        """Delete feeds that are no longer needed; see :meth:`AttemptFeeds.delete_before`."""
        self._feeds.delete_before(self._predecessor[0])

    def _continue_previous(self) -> None:
        """Read the newest feed of earlier attempts, from its newest compact entry on. Then write the first entry."""
        while not self._read_feed(self._feeds.newest()):
            self._clear()
        self._unfed = frozenset(partition for partition, fed in self._fed.items() if fed < 0)
        self._write_first_entry()

    def _clear(self) -> None:
        self._lines, self._fed = {}, dict.fromkeys(self._partitions, -1)
        self._positions = {partition: {} for partition in self._partitions}

    def _read_feed(self, feed: str) -> bool:
        """Read the entries of ``feed``. Return False if an earlier attempt deleted some of them meanwhile."""
        numbers = self._feeds.complete_entries(feed)
        self._predecessor = (feed, -1)
        try:
            for number in numbers:
                for _, _, line in self._parse(feed, number):
                    self._remember(line)
                self._predecessor = (feed, number)
        except ObjectNotFoundError:
            return False
        return True

    def _write_first_entry(self) -> None:
        """Write all unread files as the first entry. Without an entry, Spark would list the folder."""
        self._storage.delete_tree(f"{self._path}/_spark_metadata")
        self._next = 0
        self._write(self._lines.values())

    def _positions_fed_late(self, paths: Collection[str]) -> list[int]:
        """Return the log positions of files that the query has read, but that this feed has not named.

        The previous attempt fed these files after this feed was created. Files whose entry was compacted have no
        position.
        """
        if not paths:
            return []
        feed, last = self._predecessor
        late_positions: dict[str, int] = {}
        for number in [n for n in self._feeds.numbers(feed) if n > last]:
            try:
                late_positions |= {path: position for path, position, _ in self._parse(feed, number)}
            except ObjectNotFoundError:
                continue  # the entry was compacted; the position is found when the file is fed again
            self._predecessor = (feed, number)
        fed_again = (
            path
            for path in paths
            if path in self._partly_read or self._is_fed_again(path, late_positions.get(path, -1))
        )
        self._read_before.update(fed_again)
        return [late_positions[path] for path in paths if path in late_positions]

    def _is_fed_again(self, path: str, late_position: int) -> bool:
        """Return True if a file that the query has read will be fed again.

        ``late_position`` is its position if the previous attempt fed it after this feed was created; otherwise -1.
        """
        partition = self._partition_of(path)
        return partition in self._unfed or late_position > self._fed[partition]

    def _partition_of(self, path: str) -> str:
        return next(
            (partition for root, partition in self._roots.items() if path.startswith(root)), self._partitions[0]
        )

    def _parse(self, feed: str, number: int) -> list[tuple[str, int, str]]:
        """Return (normal path, position, line) for each file that an entry names.

        Raises SparkFolderLostError.
        """
        name = entry_path(feed, number)
        try:
            return [(*_read_line(line), line) for line in feed_entry.decode(self._storage.read(name))]
        except UNREADABLE:
            uri = self._storage.full_uri(name)
            raise SparkFolderLostError(uri=uri, problem="is not what was written") from None

    def _remember(self, line: str) -> None:
        path, position = _read_line(line)
        partition = self._partition_of(path)
        if path in self._read_before:
            self._read_before.discard(path)
        else:
            self._lines[path] = line
            self._positions[partition][path] = position
        self._fed[partition] = max(self._fed[partition], position)

    def _write(self, lines: Iterable[str]) -> None:
        entry = feed_entry.encode(lines, self._spark_uri(self._path))
        # If it exists, a reply was lost, because only this attempt writes here.
        self._storage.create_if_absent(entry_path(self._path, self._next), entry)
        self._next += 1

    def _line(self, partition: str, position: int, index: int, path: str, size: int) -> str:
        # Spark reads in the order of modification times, so they follow the order of the producer's log
        modified = _EPOCH_MS + position * _STEP_MS + min(index, _STEP_MS - 1)
        return feed_entry.line(self._spark_uri(f"{partition}/{path}"), size, modified)

    def _spark_uri(self, path: str) -> str:
        scheme, _, address = self._storage.spark_uri(path).partition(":")
        return f"{scheme}:{quote(address)}"


def _read_line(line: str) -> tuple[str, int]:
    entry = json.loads(line)
    return normal_path(entry["path"]), (entry["modificationTime"] - _EPOCH_MS) // _STEP_MS


def _root_of(storage: Storage, partition: str) -> str:
    return storage.spark_uri(partition).partition(":")[2].lstrip("/") + "/"  # nothing in it is escaped
