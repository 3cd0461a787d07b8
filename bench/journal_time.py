"""How long a driver's journal takes, told from outside the package."""

from __future__ import annotations

import threading
import time
from typing import Any

from airflow_provider_ckpt.journal.journal import Journal


class JournalTime:
    """Of the journal's calls that write; what one of them calls counts once. ``seconds``: with the disk's; ``cpu``:
    without them."""

    def __init__(self) -> None:
        self.seconds, self.cpu, self.entries = 0.0, 0.0, 0
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
            self._inside.now, begun, cpu = True, time.perf_counter(), time.thread_time()
            try:
                return call(*args, **more)
            finally:
                self._inside.now = False
                with self._lock:
                    self.seconds += time.perf_counter() - begun
                    self.cpu += time.thread_time() - cpu

        return timed
