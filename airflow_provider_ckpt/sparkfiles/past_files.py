"""Removal of old files from a query's own log of an edge. The query has read them, and no feed names them again (R7).

Spark's file source records the name of every file that it ever read. It compacts that log every ten batches
(``sources/<edge>/<n>.compact``), and each attempt continues with a copy. The files of an edge belong to this package,
and are deleted when all consumers have read them.

If a feed names a file that the log no longer names, Spark reads the file again and duplicates its rows. So a file is
past only if neither the attempt's feed nor a live entry of the producer's log names it. The deletion of a file does
not make it past, because a user may put it back. The producer's log keeps all entries that a retained checkpoint needs
(R7). So a restore feeds no past file (R4).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import normal_path
from airflow_provider_ckpt.sparkfiles.source_log import COMPACT, LogLine, entry_number, read_lines
from airflow_provider_ckpt.storage.refusal import UNREADABLE
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class PastFiles:
    """The past files of one edge. The query's log of the edge need no longer name them.

    Args:
        offset: Last entry of the source's log that published batches have read. Batches of later entries may run again.
        roots: Starts of the normal paths of the files of the edge's producers.
        named: Normal paths of files that the feed names, or may still name. These files are not past.
    """

    offset: int
    roots: tuple[str, ...]
    named: frozenset[str]

    def forget(self, storage: Storage, path: str) -> None:
        """Remove the past files from the compacted entries of the log at ``path``.

        The folder must belong to this attempt and have no marker, and its query must not have started. All entries
        stay, because Spark computes its compaction interval from their numbers. Entries that are not compacted stay
        unchanged, because they are few.

        Raises SparkFolderLostError.
        """
        names = [name for name in storage.list(path) if name.endswith(COMPACT)]
        compacted = sorted(number for number in map(entry_number, names) if number >= 0)
        if not compacted:
            return
        newest = f"{path}/{compacted[-1]}{COMPACT}"
        data = storage.read(newest)
        try:
            version, lines = data.decode().split("\n", 1)[0], read_lines(data)
        except UNREADABLE:
            raise SparkFolderLostError(uri=storage.full_uri(newest), problem="is not what Spark wrote") from None
        kept_lines = [line for line in lines if not self._is_past(line)]
        if len(kept_lines) == len(lines):
            return
        for number in compacted:  # each includes the files of the previous one
            entry_lines = [line.text for line in kept_lines if line.batch <= number]
            checksum.replace(storage, f"{path}/{number}{COMPACT}", "\n".join([version, *entry_lines]).encode())

    def _is_past(self, line: LogLine) -> bool:
        path = normal_path(line.uri)
        return line.batch <= self.offset and path.startswith(self.roots) and path not in self.named
