"""A time limit after which work is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable

_AGAIN = 0.1


class TimeLimit:
    """A context that calls ``cancel`` in a thread of its own when ``seconds`` have passed.

    It repeats the call until the context is left, because the work may be several Spark jobs, one after the other.
    """

    def __init__(self, seconds: float, cancel: Callable[[], None]) -> None:
        self._seconds, self._cancel = seconds, cancel
        self._left = threading.Event()
        self._passed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ckpt-time-limit", daemon=True)

    @property
    def has_passed(self) -> bool:
        return self._passed.is_set()

    def __enter__(self) -> TimeLimit:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _watch(self) -> None:
        wait = self._seconds
        while not self._left.wait(wait):
            self._passed.set()
            self._cancel()
            wait = _AGAIN
