"""The journal in the hands of the driver that claimed it."""

from __future__ import annotations

import threading

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph


class OwnedJournal:
    """The journal, shared by the threads of the driver that claimed it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()

    @property
    def state(self) -> JobState:
        return self._journal.state

    def graph(self) -> JobGraph:
        """As the job runs now; in any thread."""
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
