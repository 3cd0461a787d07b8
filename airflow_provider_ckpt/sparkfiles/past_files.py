"""What a query's own log of an edge need not name any more: files that it has read and no feed names again (R7).

Spark's file source keeps the name of every file that it ever took, in a log that it compacts each ten batches
(``sources/<edge>/<n>.compact``), and each attempt goes on with a copy. The files of a source are a user's, and may be
there for ever; those of an edge are ours, and are given back when all have read them.

What such a log does not name, and the feed does, Spark reads once more: rows twice. That a file is gone says little, as
somebody may put it back. So it goes by what can be fed: a file is past if the feed of the attempt does not name it, and
no live entry of the producer's log does. The log is truncated behind what each retained checkpoint needs (R7), so that
who goes back to one of them is fed nothing else (R4), and each later attempt takes up this feed or a later one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.storage.refusal import UNREADABLE
from airflow_provider_ckpt.storage.storage import Storage

_COMPACT = ".compact"


@dataclass(frozen=True)
class PastFiles:
    """Of one edge. ``offset``: the entry of the source's log up to which published batches have read it. What comes
    behind is planned, and may run again. ``roots``: what the normal paths of files of its producers begin with;
    ``named``: those that the feed names, or may name yet."""

    offset: int
    roots: tuple[str, ...]
    named: frozenset[str]

    def forget(self, storage: Storage, path: str) -> None:
        """Leave them out of the compacted entries of the log at ``path``, of a folder of our own, before its query
        starts and before it is complete. All entries stay: by their numbers Spark tells how often it compacts, and the
        offsets what was read. The other ones are few. Raises SparkFolderLostError."""
        names = [name.removesuffix(_COMPACT) for name in storage.list(path) if name.endswith(_COMPACT)]
        compacted = sorted(int(name) for name in names if name.isdecimal())
        if not compacted:
            return
        newest = f"{path}/{compacted[-1]}{_COMPACT}"
        data = storage.read(newest)
        try:
            version, *lines = data.decode().split("\n")
            kept = [(batch, line) for batch, uri, line in map(_read, filter(None, lines)) if not self._has(batch, uri)]
        except UNREADABLE:
            raise SparkFolderLostError(uri=storage.full_uri(newest), problem="is not what Spark wrote") from None
        if len(kept) == len(lines):
            return
        for number in compacted:  # each has what the one before it has
            own = [line for batch, line in kept if batch <= number]
            checksum.replace(storage, f"{path}/{number}{_COMPACT}", "\n".join([version, *own]).encode())

    def _has(self, batch: int, uri: str) -> bool:
        path = normal_path(uri)
        return batch <= self.offset and path.startswith(self.roots) and path not in self.named


def _read(line: str) -> tuple[int, str, str]:
    entry = json.loads(line)
    return int(entry["batchId"]), str(entry["path"]), line
