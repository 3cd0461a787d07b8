"""The journal of a job in its driver: opened before the claim, and shared by the driver's threads after it."""

from __future__ import annotations

import threading

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.storage.storage import Storage


def open_journal(storage: Storage, options: RunOptions) -> Journal:
    """Return the journal of the job, without reading or claiming it."""
    buffer, interval = options.journal_buffer_bytes, options.journal_flush_interval
    return Journal(storage, options.job_id, buffer_bytes=buffer, flush_interval=interval)


class OwnedJournal:
    """A claimed journal, shared by the threads of its driver."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()

    @property
    def state(self) -> JobState:
        return self._journal.state

    def graph(self) -> JobGraph:
        """Return the graph that the job runs now. Any thread may call this."""
        return self._journal.state.graph()

    def write(self, event: Event) -> None:
        with self._lock:
            self._journal.write(event)

    def flush(self) -> None:
        with self._lock:
            self._journal.flush()

    def tick(self) -> None:
        with self._lock:
            self._journal.tick()

    def check_fenced(self) -> None:
        with self._lock:
            self._journal.check_fenced()

    @property
    def uncompacted(self) -> int:
        with self._lock:
            return self._journal.uncompacted

    def compact(self, now: float) -> None:
        with self._lock:
            head = self._journal.write_snapshot(now)
        self._journal.truncate(head)
