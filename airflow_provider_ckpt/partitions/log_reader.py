"""A subtask's log for those who read it and do not write it: its consumers, and whoever releases.

In the writer's own process the :class:`SubtaskLog` is one: it shows what it has read and written, at no cost.
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
        """The number of the next entry, as far as the log was read."""

    @property
    def has_ended(self) -> bool:
        """End of data is in it."""

    def records(self, start: int = 0) -> list[Numbered]:
        """The live records with number >= ``start``, in order, those that have come since included."""

    def forget(self, head: int, kept: Container[int]) -> None:
        """Entries below ``head`` were truncated (:class:`LogTruncation`), but for the numbers ``kept``: they are in
        memory no longer."""


class TailingLogReader:
    """Reads the log of a writer that may be anywhere. Each call of :meth:`records` looks for the next entry: one
    request, more if there is one. ``path`` is the folder of the log under the storage's root."""

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
        """All that there are: whoever releases, or deletes, by them takes those that are not there for absent. Raises
        CorruptLogError, BelowHeadError if the log was truncated beyond what was read, and what the storage fails
        with."""
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
            self._head = self._entries.head  # what is gone below it was not read
        while self._entries.is_cut_short:  # the next call raises, or has more
            self._records += numbered(self._entries.tail())
        if self._entries.head > self._head:  # by whoever truncates, who may be elsewhere
            kept = self._entries.kept_now()
            self._head = self._entries.head
            self._records = without_forgotten(self._records, self._head, kept)

    def _state(self) -> LogState:
        return fold(self.records())
