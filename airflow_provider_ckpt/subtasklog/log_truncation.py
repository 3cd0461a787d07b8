"""Truncation of a subtask's log by the JobMaster, which is not its writer (R3, R7)."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import kept_below
from airflow_provider_ckpt.subtasklog.record_codec import numbered, subtask_entries


class LogTruncation:
    """The truncation of one log. Its writer may be in any process, and may append meanwhile.

    ``check_fenced`` raises if this process no longer owns the journal, because the next driver may need the entries.
    """

    def __init__(self, storage: Storage, path: str, check_fenced: Callable[[], None]) -> None:
        self._storage, self._path, self._check_fenced = storage, path, check_fenced

    def truncate(self, head: int, unreleased_from: int | None) -> frozenset[int]:
        """Delete the entries below ``head`` and return the numbers of the entries that stay.

        Open records stay. The entries of :func:`.kept_below` stay until the next truncation. Each call reads the whole
        log to find them.

        Args:
            head: number of the first entry after the deleted entries.
            unreleased_from: number of the first entry with a batch that a sink must still release; None without such a
                batch.

        Raises FencedError, TerminalError if ``head`` is beyond the log, and the errors of the storage.
        """
        entries = subtask_entries(self._storage, self._path)
        records = numbered(entries.load())
        self._check_fenced()
        kept = kept_below(records, head, unreleased_from)
        return entries.truncate(head, besides=kept)
