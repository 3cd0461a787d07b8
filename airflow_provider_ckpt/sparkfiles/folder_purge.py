"""What an attempt's Spark folder holds of batches that nobody goes back to (R6, R7).

Spark keeps the plans and commits of its last hundred batches, however old, and of a file source's log all that it wrote
in the last ten minutes, however much: on a local disk, with checksums, six files a batch. Its numbers have to be that
high, since it knows nothing of checkpoints: a batch that one covers is what a restore goes back to. Who knows of them
deletes what lies before.

1.  Only what no retained checkpoint needs. Those to come are behind them, and so is where a successor goes back to:
    whoever was overtaken while it deletes here takes nothing from anybody.
2.  Spark finds nothing missing that it looks for: it reads the newest two plans, the newest commit, and of a source's
    log the newest compacted entry and what follows. From the newest two compacted ones it tells how often it compacts,
    so two are left below the checkpoint.
3.  Whatever is asked for, the newest commit stays with those before it that are looked at.
4.  State is Spark's own affair: its files refer to each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder

_MARGIN = 2
"""Batches before the oldest one needed that stay: whether a batch cut the state anew is told by the one before it."""
_COMPACT = ".compact"


class FolderPurge:
    """Of one attempt's folder, in which its query may be running. Raises the storage's errors: what was not deleted is
    deleted by the next one."""

    def __init__(self, folder: SparkFolder) -> None:
        self._storage, self._path = folder.storage, folder.path

    def run(self, batch_id: int, offsets: Mapping[str, str]) -> None:
        """``batch_id``: the batch of the oldest checkpoint that is retained; ``offsets``: those of that batch, by
        source."""
        newest = max(self._numbers("commits"), default=-1)
        for log in ("offsets", "commits"):
            self._purge(log, min(batch_id, newest) - _MARGIN)
        for uid, offset in offsets.items():
            if offset.startswith("{"):  # else it is no file source's, and not even JSON
                self._purge_source(f"sources/{uid}", log_offset(offset))

    def _purge(self, log: str, before: int) -> None:
        for number in self._numbers(log):
            if number < before:
                checksum.delete(self._storage, f"{self._path}/{log}/{number}")

    def _numbers(self, log: str) -> list[int]:
        return sorted(int(name) for name in self._storage.list(f"{self._path}/{log}") if name.isdecimal())

    def _purge_source(self, log: str, offset: int) -> None:
        """``offset``: up to which entry the source's log is needed as it is; -1 of another kind of source, whose
        entries are its own."""
        entries = {name: _number(name) for name in self._storage.list(f"{self._path}/{log}")}
        compacted = sorted(n for name, n in entries.items() if name.endswith(_COMPACT) and 0 <= n <= offset)
        if len(compacted) < 2:
            return
        for name in sorted(entries, key=entries.__getitem__):
            if 0 <= entries[name] < compacted[-1] and entries[name] != compacted[-2]:
                checksum.delete(self._storage, f"{self._path}/{log}/{name}")


def _number(name: str) -> int:
    """-1: it is no entry."""
    digits = name.removesuffix(_COMPACT)
    return int(digits) if digits.isdecimal() else -1
