"""How long a driver's journal takes, told from outside the package."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.task.split_reading import SplitReading


class _Readers:
    """Of the splits of a job: whether all of them have some to read while the journal is written."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[SplitReading] = weakref.WeakSet()
        begin = SplitReading.__init__

        def noted(reading: SplitReading, *given: Any) -> None:
            begin(reading, *given)
            self._all.add(reading)

        SplitReading.__init__ = noted  # type: ignore[assignment,method-assign]

    def are_busy(self) -> bool:
        """Each has a split to read or will get none any more, and some have one."""
        assigned = [one._assigned for one in list(self._all)]
        return any(one.next() for one in assigned) and all(one.next() or one.is_exhausted for one in assigned)


class JournalTime:
    """Of the journal's calls that write; what one of them calls counts once. ``seconds``: with the disk's; ``cpu``:
    without them; ``waited``: of those with the disk's, in which some subtask had nothing to read when they began or
    when they ended, or none had. In the others the job went on meanwhile."""

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
