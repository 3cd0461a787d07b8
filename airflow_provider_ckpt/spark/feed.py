"""How a consumer's query sees a result partition: a log in the form of Spark's own file sink, written by us.

Spark's file source, pointed at a folder that holds a ``_spark_metadata`` log, reads exactly the files the
log names. So a published batch of the producer becomes visible to the consumer by one small file, data moves
at the speed of Spark's Parquet source, and no code of ours runs in the executors.

Spark insists that the folder is an ancestor of the files. A partition with several consumers therefore nests
one folder per edge (``partition/<edge>/<edge>/data``), and each has its own log to hold back (R19).

Every entry is a function of the producer's log alone, so it does not matter who creates it first.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from urllib.parse import quote

from airflow_provider_ckpt.errors import AlreadyExistsError
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.spark.seen_files import normal_path
from airflow_provider_ckpt.storage.storage import Storage

COMPACT_EVERY = 10
"""Spark's default interval; readers find the compact entries by it."""
_EPOCH_MS = 1_600_000_000_000
_STEP_MS = 1_000


def data_folder(partition: str, edges: Collection[str]) -> str:
    """Where the producer writes: below one folder per edge, sorted by uid."""
    return "/".join([partition, *sorted(edges), "data"])


def feed_folder(partition: str, edges: Collection[str], edge: str) -> str:
    nested = sorted(edges)
    return "/".join([partition, *nested[: nested.index(edge) + 1]])


class EdgeFeed:
    """``path``: the feed's folder; ``partition``: the folder that PartitionFile paths are relative to."""

    def __init__(self, storage: Storage, path: str, partition: str) -> None:
        self._storage = storage
        self._path = path
        self._partition = partition
        self._next = 0
        self._lines: dict[str, str] = {}
        self._positions: dict[str, int] = {}
        self.fed = -1
        """Highest position of the producer's log that was fed."""
        self._read_before: set[str] | None = None
        """In an empty feed (new, or reset): normal paths that the query has read already, and that may be fed
        once more."""
        self._load()

    @property
    def location(self) -> str:
        return self._storage.spark_uri(self._path)

    def add(self, position: int, batch: Batch) -> None:
        """Make the batch at ``position`` visible; a no-op if it is already."""
        while position > self.fed:
            lines = [self._line(position, index, file.path, file.size) for index, file in enumerate(batch.files)]
            compact = (self._next + 1) % COMPACT_EVERY == 0
            body = "\n".join(["v1", *(self._lines.values() if compact else ()), *lines])
            try:
                self._storage.create(self._name(self._next), body.encode())
            except AlreadyExistsError:
                self._absorb(self._next)  # the driver before us was faster: read what it fed
            else:
                for line in lines:
                    self._remember(line)
            self._next += 1
            if compact:
                self._forget_before(self._next - 1 - COMPACT_EVERY)

    def _forget_before(self, number: int) -> None:
        """Delete entries that two compact ones cover; Spark may still be reading from the older of them."""
        for name in self._storage.list(f"{self._path}/_spark_metadata"):
            found = name.partition(".")[0]
            if found.isdigit() and int(found) < number:
                self._storage.delete(f"{self._path}/_spark_metadata/{name}")

    def consumed(self, paths: Collection[str]) -> int | None:
        """Forget files (normal paths) that a published batch has read, so that compaction leaves them out;
        returns the highest position among them."""
        if any(path not in self._positions for path in paths):
            self._catch_up()  # the driver before us fed it after we had looked
            if self._read_before is not None:
                self._read_before.update(path for path in paths if path not in self._positions)
        positions = [self._positions.pop(path) for path in paths if path in self._positions]
        for path in paths:
            self._lines.pop(path, None)
        return max(positions, default=None)

    def has_unread(self) -> bool:
        return bool(self._positions)

    def reset(self) -> None:
        """Forget all that was fed; for a rewind, when part of it became void."""
        self._storage.delete_tree(f"{self._path}/_spark_metadata")
        self._lines, self._positions, self.fed, self._read_before = {}, {}, -1, set()
        self._begin()

    def _load(self) -> None:
        """Take up what earlier attempts fed: from the newest compact entry on."""
        names = self._storage.list(f"{self._path}/_spark_metadata")
        numbers = sorted(int(name.partition(".")[0]) for name in names if name[0].isdigit())
        compact = max((int(n.partition(".")[0]) for n in names if n.endswith(".compact")), default=0)
        for number in numbers:
            if number >= compact:
                self._absorb(number)
        self._next = numbers[-1] + 1 if numbers else 0
        if self.fed < 0:
            self._read_before = set()
        if not numbers:
            self._begin()

    def _begin(self) -> None:
        """An empty log, before the first query: without one Spark would list the folder, unfed files and all."""
        try:
            self._storage.create(self._name(0), b"v1")
        except AlreadyExistsError:
            self._absorb(0)
        self._next = 1

    def _catch_up(self) -> None:
        while self._storage.exists(self._name(self._next)):
            self._absorb(self._next)
            self._next += 1

    def _absorb(self, number: int) -> None:
        for line in self._storage.read(self._name(number)).decode().splitlines()[1:]:
            self._remember(line)

    def _remember(self, line: str) -> None:
        entry = json.loads(line)
        position = (entry["modificationTime"] - _EPOCH_MS) // _STEP_MS
        path = normal_path(entry["path"])
        if path not in (self._read_before or ()):
            self._lines[path] = line
            self._positions[path] = position
        self.fed = max(self.fed, position)

    def _name(self, number: int) -> str:
        suffix = ".compact" if (number + 1) % COMPACT_EVERY == 0 else ""
        return f"{self._path}/_spark_metadata/{number}{suffix}"

    def _line(self, position: int, index: int, path: str, size: int) -> str:
        uri = self._storage.spark_uri(f"{self._partition}/{path}")
        scheme, _, rest = uri.partition(":")
        return json.dumps(
            {
                "path": f"{scheme}:{quote(rest)}",
                "size": size,
                "isDir": False,
                # Spark reads in the order of modification times: the order of the producer's log
                "modificationTime": _EPOCH_MS + position * _STEP_MS + min(index, _STEP_MS - 1),
                "blockReplication": 1,
                "blockSize": 33_554_432,
                "action": "add",
            },
            separators=(",", ":"),
        )
