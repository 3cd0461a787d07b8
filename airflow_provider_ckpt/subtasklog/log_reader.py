"""Readers of a subtask's log: its consumers, and the processes that release its output.

* :class:`LogReader` is the interface of all readers. In the writer's own process, :class:`SubtaskLog` implements it
  without requests to the storage.
* :class:`TailingLogReader` reads a log whose writer may be in any process. :class:`TailedLogs` holds the logs of a job.
* :class:`EdgeLog` omits the files of batches that were published before an edge existed (R7).
* :class:`CurrentLog` follows a subtask from attempt to attempt, in the process of its writers.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from airflow_provider_ckpt.model.graph import layout_of
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import LogState, Numbered, fold, from_number, without_forgotten
from airflow_provider_ckpt.subtasklog.record_codec import numbered, subtask_entries
from airflow_provider_ckpt.subtasklog.records import Batch, Record
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


class LogReader(Protocol):
    """The interface of all readers of a log."""

    @property
    def path(self) -> str:
        """The folder of the log under the storage's root."""

    @property
    def position(self) -> int:
        """The number of the first entry after the entries that were read."""

    @property
    def has_ended(self) -> bool:
        """True if the log has an end of data."""

    def records(self, start: int = 0) -> list[Numbered]:
        """Return the live records with number >= ``start``, in order, up to the log's newest record."""

    def forget(self, head: int, kept: Container[int]) -> None:
        """Drop truncated entries below ``head`` from memory. ``kept``: numbers that the truncation did not delete."""


class TailingLogReader:
    """A reader of a log whose writer may be in any process. ``path`` is the log's folder under the storage's root.

    Each call of :meth:`records` checks for the next entry with one request, and reads more if there is one.
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
                self._read_new()
            return self._entries.next_number

    @property
    def has_ended(self) -> bool:
        return self._state().end_of_data is not None

    def records(self, start: int = 0) -> list[Numbered]:
        """Return all live records with number >= ``start``. Callers that release or delete need all of them.

        Raises CorruptLogError, BelowHeadError if the log was truncated beyond the records that were read, and the
        storage's errors.
        """
        with self._lock:
            self._read_new()
            return from_number(self._records, start)

    def forget(self, head: int, kept: Container[int]) -> None:
        with self._lock:
            self._records = without_forgotten(self._records, head, kept)
            self._head = max(self._head, head)

    def _read_new(self) -> None:
        is_first = not self._entries.loaded
        self._records += numbered(self._entries.tail())
        if is_first:
            self._head = self._entries.head  # deleted entries below the head were not read
        while self._entries.is_cut_short:  # the next call raises an error or returns more
            self._records += numbered(self._entries.tail())
        if self._entries.head > self._head:  # a truncation, perhaps by another process
            kept = self._entries.kept_numbers()
            self._head = self._entries.head
            self._records = without_forgotten(self._records, self._head, kept)

    def _state(self) -> LogState:
        return fold(self.records())


class TailedLogs(dict[SubtaskId, TailingLogReader]):
    """Subtask → the reader of its log, which all callers share.

    The logs of ``subtasks`` are opened at the start. Other logs are opened on first use, for subtasks of a rescale.
    """

    def __init__(self, storage: Storage, job_id: str, subtasks: Iterable[SubtaskId] = ()) -> None:
        self._storage, self._job_id = storage, job_id
        super().__init__({subtask: self._reader(subtask) for subtask in subtasks})

    def __missing__(self, subtask: SubtaskId) -> TailingLogReader:
        return self.setdefault(subtask, self._reader(subtask))

    def _reader(self, subtask: SubtaskId) -> TailingLogReader:
        return TailingLogReader(self._storage, subtask_log_path(self._job_id, subtask.vertex, subtask.number))


class EdgeLog:
    """A :class:`LogReader` that omits the files of batches from before the edge existed.

    A consumer that is added to a job skips these batches, because some of their data may already be deleted.
    ``since`` is the layout of the producer's partition in which the edge was added.
    """

    def __init__(self, log: LogReader, since: int) -> None:
        self._log, self._since = log, since

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def position(self) -> int:
        return self._log.position

    @property
    def has_ended(self) -> bool:
        return self._log.has_ended

    def records(self, start: int = 0) -> list[Numbered]:
        return [(number, self._without_old_files(record)) for number, record in self._log.records(start)]

    def forget(self, head: int, kept: Container[int]) -> None:
        self._log.forget(head, kept)

    def _without_old_files(self, record: Record) -> Record:
        if not isinstance(record, Batch) or all(layout_of(file.path) >= self._since for file in record.files):
            return record
        return replace(record, files=())


class CurrentLog:
    """The log of a subtask's current attempt. ``logs``: subtask → log of its current attempt.

    Each new attempt replaces the log there. A subtask that a rescale has added has no log until its first attempt opens
    it. An older log in its folder is not read.
    """

    def __init__(self, logs: Mapping[SubtaskId, SubtaskLog], subtask: SubtaskId) -> None:
        self._logs, self._subtask = logs, subtask

    @property
    def path(self) -> str:
        return self._logs[self._subtask].path

    @property
    def position(self) -> int:
        log = self._logs.get(self._subtask)
        return 0 if log is None else log.position

    @property
    def has_ended(self) -> bool:
        log = self._logs.get(self._subtask)
        return log is not None and log.has_ended

    def forget(self, head: int, kept: Container[int]) -> None:
        self._logs[self._subtask].forget(head, kept)

    def records(self, start: int = 0) -> list[Numbered]:
        log = self._logs.get(self._subtask)
        return [] if log is None else log.records(start)
