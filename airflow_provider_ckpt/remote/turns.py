"""Of many JobMasters in one process few work at once, so that the process has time for what else it does."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

PATIENCE = 1.0
"""Seconds after which a turn does not count any more: a storage that hangs holds up its own job, and no other."""


class Turns:
    """A context, entered for each piece of work, in any thread; not within itself. ``count``: so many work at once, but
    for those that have been at it for ``patience`` seconds. Who came first is next. ``clock``: seconds that never go
    back.

    It is the work that may take too long, not the wait: where hundreds begin at once, the last of them wait for
    longer than that though nothing hangs, and are not to begin together all the same.
    """

    def __init__(self, count: int, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._patience, self._clock = count, patience, clock
        self._lock = threading.Lock()
        self._working: dict[int, float] = {}
        """Thread -> when its turn does not count any more by the clock."""
        self._waiting: deque[threading.Event] = deque()
        """Of each who waits, what wakes it. Only the first is woken: of hundreds each would look for nothing."""

    def __enter__(self) -> None:
        me = threading.Event()
        with self._lock:
            self._waiting.append(me)
        try:
            while not self._begins(me):
                me.wait(self._wait_of(me))
        except BaseException:  # nobody is to wait behind one who has left
            with self._lock:
                if me in self._waiting:
                    self._waiting.remove(me)
                self._wake_first()
            raise

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            del self._working[threading.get_ident()]
            self._wake_first()

    def _begins(self, me: threading.Event) -> bool:
        with self._lock:
            me.clear()
            if self._waiting[0] is not me or len(self._counted()) >= self._count:
                return False
            self._waiting.popleft()
            self._working[threading.get_ident()] = self._clock() + self._patience
            self._wake_first()
            return True

    def _wait_of(self, me: threading.Event) -> float | None:
        """Seconds until a turn does not count any more; None: others are first."""
        with self._lock:
            counted = self._counted()
            if self._waiting[0] is not me:
                return None
            return max(0.0, counted[-self._count] - self._clock()) if len(counted) >= self._count else 0.0

    def _counted(self) -> list[float]:
        now = self._clock()
        return sorted(ends for ends in self._working.values() if ends > now)

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()
