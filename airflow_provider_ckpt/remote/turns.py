"""Of many JobMasters in one process few work at once, so that the process has time for what else it does."""

from __future__ import annotations

import threading

PATIENCE = 1.0
"""Seconds after which whoever waits works anyway: a storage that hangs holds up its own job, and no other."""


class Turns:
    """A context, entered for each piece of work, in any thread; not within itself. ``count``: so many at once, but for
    those that have waited for ``patience`` seconds."""

    def __init__(self, count: int, patience: float = PATIENCE) -> None:
        self._free, self._patience = threading.BoundedSemaphore(count), patience
        self._mine = threading.local()

    def __enter__(self) -> None:
        self._mine.is_taken = self._free.acquire(timeout=self._patience)

    def __exit__(self, *exc: object) -> None:
        if self._mine.is_taken:
            self._free.release()
