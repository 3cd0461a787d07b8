"""Measurement of the time that a driver's journal takes, by patches from outside of the package."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.task.split_reading import SplitReading


class _Readers:
    """The readers of the splits of a job, to know whether all of them are busy while the journal is written."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[SplitReading] = weakref.WeakSet()
        begin = SplitReading.__init__

        def noted(reading: SplitReading, *given: Any) -> None:
            begin(reading, *given)
            self._all.add(reading)

        SplitReading.__init__ = noted  # type: ignore[assignment,method-assign]

    def are_busy(self) -> bool:
        """Return True if each reader has a split or will get no more splits, and some reader has one."""
        assigned = [one._assigned for one in list(self._all)]
        return any(one.next() for one in assigned) and all(one.next() or one.is_exhausted for one in assigned)


class JournalTime:
    """The time of the journal's calls that write. Nested calls count once.

    Attributes:
        seconds: with the time of the disk.
        cpu: CPU seconds, so without the time of the disk.
        waited: the part of ``seconds`` in calls at whose start or end some subtask had nothing to read, or no subtask
            had. During the other calls, the job continued.
    """

    def __init__(self) -> None:
        self.seconds, self.cpu, self.waited, self.entries = 0.0, 0.0, 0.0, 0
        self._readers = _Readers()
        self._inside = threading.local()
        self._lock = threading.Lock()
        for name in ("claim", "write", "flush", "tick", "write_snapshot", "truncate"):
            setattr(Journal, name, self._timed(getattr(Journal, name)))
        append = Journal._append

        def counted(journal: Journal, texts: list[str]) -> None:
            self.entries += 1
            append(journal, texts)

        Journal._append = counted  # type: ignore[assignment,method-assign]

    def _timed(self, call: Any) -> Any:
        def timed(*args: Any, **more: Any) -> Any:
            if getattr(self._inside, "now", False):
                return call(*args, **more)
            self._inside.now, busy = True, self._readers.are_busy()
            begun, cpu = time.perf_counter(), time.thread_time()
            try:
                return call(*args, **more)
            finally:
                seconds, spent = time.perf_counter() - begun, time.thread_time() - cpu
                self._inside.now = False
                with self._lock:
                    self.seconds += seconds
                    self.cpu += spent
                    self.waited += 0.0 if busy and self._readers.are_busy() else seconds

        return timed
