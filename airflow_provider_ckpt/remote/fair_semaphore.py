"""A limit on how many JobMasters of one process work in parallel, so that the process has time for its other work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

MAX_TURN = 1.0
"""Seconds after which a piece of work no longer counts. So a storage that hangs delays only its own job's JobMaster."""


class FairSemaphore:
    """A context that a thread enters for each piece of work.

    A thread must not enter it a second time before it has left it. At most ``count`` pieces of work run in parallel,
    first come, first served. Work that takes longer than ``max_turn`` seconds no longer counts. A thread may wait
    without a limit, because hundreds of JobMasters may begin at the same time.
    """

    def __init__(self, count: int, max_turn: float = MAX_TURN, clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._max_turn, self._clock = count, max_turn, clock
        self._lock = threading.Lock()
        self._working: dict[int, float] = {}
        """Id of a thread that works → time of the clock after which its piece of work no longer counts."""
        self._waiting: deque[threading.Event] = deque()
        """An event for each waiting thread. Only the first thread is woken, because the others could not begin."""

    def __enter__(self) -> None:
        event = threading.Event()
        with self._lock:
            self._waiting.append(event)
        try:
            while not self._try_begin(event):
                event.wait(self._wait_seconds(event))
        except BaseException:  # otherwise the threads after this one would wait for ever
            with self._lock:
                if event in self._waiting:
                    self._waiting.remove(event)
                self._wake_first()
            raise

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            del self._working[threading.get_ident()]
            self._wake_first()

    def _try_begin(self, event: threading.Event) -> bool:
        with self._lock:
            event.clear()
            if self._waiting[0] is not event or len(self._turn_ends()) >= self._count:
                return False
            self._waiting.popleft()
            self._working[threading.get_ident()] = self._clock() + self._max_turn
            self._wake_first()
            return True

    def _wait_seconds(self, event: threading.Event) -> float | None:
        """Return the seconds after which the thread of ``event`` can begin; None if another thread is first."""
        with self._lock:
            turn_ends = self._turn_ends()
            if self._waiting[0] is not event:
                return None
            return max(0.0, turn_ends[-self._count] - self._clock()) if len(turn_ends) >= self._count else 0.0

    def _turn_ends(self) -> list[float]:
        now = self._clock()
        return sorted(ends for ends in self._working.values() if ends > now)

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()
