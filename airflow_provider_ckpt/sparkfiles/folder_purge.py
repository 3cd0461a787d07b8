"""Deletion of files in an attempt's Spark folder that no restore needs (R6, R7).

Spark retains the plans and commits of its last hundred batches, and all entries of a file source's log from the last
ten minutes. On a local disk, with checksums, that is six files for each batch. Spark does not know which batches a
restore needs, so it retains that many. This package knows them, and deletes earlier files.

1. Only files that no retained checkpoint needs are deleted. A later driver goes back to the batch of a checkpoint, so
   an overtaken driver can delete nothing that is needed.
2. Spark reads none of the deleted files. It reads the newest two plans, the newest commit, and the newest compacted
   entry of a source's log with all later ones. It computes its compaction interval from the newest two compacted
   entries, so two stay before the checkpoint.
3. The newest commit always stays, with the batches before it that this package reads.
4. Files of the state are left to Spark, because they refer to each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.sparkfiles.source_log import COMPACT, entry_number
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder

_MARGIN = 2
"""Number of batches that stay before the oldest needed one. They show whether it repartitioned the state."""


class FolderPurge:
    """The purge of one attempt's folder. Its query may be running.

    Methods raise the storage's errors. The next purge deletes the remaining files.
    """

    def __init__(self, folder: SparkFolder) -> None:
        self._storage, self._path = folder.storage, folder.path

    def run(self, batch_id: int, offsets: Mapping[str, str]) -> None:
        """Delete the files before the oldest retained checkpoint. ``batch_id``, ``offsets``: its position."""
        newest = max(self._numbers("commits"), default=-1)
        for log in ("offsets", "commits"):
            self._purge(log, min(batch_id, newest) - _MARGIN)
        for uid, offset in offsets.items():
            if offset.startswith("{"):  # an offset of a file source is a JSON object
                self._purge_source(f"sources/{uid}", log_offset(offset))

    def _purge(self, log: str, before: int) -> None:
        for number in self._numbers(log):
            if number < before:
                checksum.delete(self._storage, f"{self._path}/{log}/{number}")

    def _numbers(self, log: str) -> list[int]:
        return sorted(int(name) for name in self._storage.list(f"{self._path}/{log}") if name.isdecimal())

    def _purge_source(self, log: str, offset: int) -> None:
        """Delete old entries of a source's log. Restores need entries from ``offset`` on; -1 deletes nothing."""
        entries = {name: entry_number(name) for name in self._storage.list(f"{self._path}/{log}")}
        compacted = sorted(n for name, n in entries.items() if name.endswith(COMPACT) and 0 <= n <= offset)
        if len(compacted) < 2:
            return
        for name in sorted(entries, key=entries.__getitem__):
            if 0 <= entries[name] < compacted[-1] and entries[name] != compacted[-2]:
                checksum.delete(self._storage, f"{self._path}/{log}/{name}")
