"""Readers of a subtask's log that do not write it: its consumers and the processes that release its output.

In the writer's own process :class:`SubtaskLog` is such a reader. It shows the records in its memory without requests.
"""

from __future__ import annotations

import threading
from collections.abc import Container
from typing import Protocol

from airflow_provider_ckpt.partitions.log_state import LogState, Numbered, fold, from_number, without_forgotten
from airflow_provider_ckpt.partitions.subtask_entries import numbered, subtask_entries
from airflow_provider_ckpt.storage.storage import Storage


class LogReader(Protocol):
    @property
    def path(self) -> str:
        """The folder of the log under the storage's root."""

    @property
    def position(self) -> int:
        """The number of the next entry after the entries that were read."""

    @property
    def has_ended(self) -> bool:
        """True if the log has an end of data."""

    def records(self, start: int = 0) -> list[Numbered]:
        """Return the live records with number >= ``start``, in order, including new ones."""

    def forget(self, head: int, kept: Container[int]) -> None:
        """Drop entries below ``head`` from memory, except for the numbers ``kept``.

        :class:`LogTruncation` has deleted these entries.
        """


class TailingLogReader:
    """A reader of a log whose writer may be in any process.

    Each call of :meth:`records` looks for the next entry with one request, and reads more if there is one. ``path`` is
    the folder of the log under the storage's root.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._entries = subtask_entries(storage, path)
        self._head = 0
        self._lock = threading.Lock()
        self._records: list[Numbered] = []

    @property
    def position(self) -> int:
        with self._lock:
            if not self._entries.loaded:
                self._read_on()
            return self._entries.next_number

    @property
    def has_ended(self) -> bool:
        return self._state().end_of_data is not None

    def records(self, start: int = 0) -> list[Numbered]:
        """Return all live records from ``start`` on, because callers that release or delete take missing ones for
        absent.

        Raises CorruptLogError, BelowHeadError if the log was truncated beyond the records that were read, and the
        storage's errors.
        """
        with self._lock:
            self._read_on()
            return from_number(self._records, start)

    def forget(self, head: int, kept: Container[int]) -> None:
        with self._lock:
            self._records = without_forgotten(self._records, head, kept)
            self._head = max(self._head, head)

    def _read_on(self) -> None:
        is_first = not self._entries.loaded
        self._records += numbered(self._entries.tail())
        if is_first:
            self._head = self._entries.head  # deleted entries below it were not read
        while self._entries.is_cut_short:  # the next call raises an error or returns more
            self._records += numbered(self._entries.tail())
        if self._entries.head > self._head:  # a truncation, perhaps by another process
            kept = self._entries.kept_now()
            self._head = self._entries.head
            self._records = without_forgotten(self._records, self._head, kept)

    def _state(self) -> LogState:
        return fold(self.records())
