"""SIGINT and SIGTERM for ``ckpt run``: the first one asks for a savepoint, the second one ends at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal:
    """``ask`` requests the stop. :meth:`install` once Spark has started: it takes SIGINT for itself."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._before: dict[signal.Signals, object] = {}

    def install(self) -> None:
        """Once; only the main thread can."""
        if not self._before and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._first) for number in SIGNALS}

    def restore(self) -> None:
        """The next signal does what it did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _first(self, number: int, frame: FrameType | None) -> None:
        self.restore()
        name = signal.Signals(number).name
        print(
            f"ckpt: {name}: taking a savepoint, then leaving; once more to leave at once", file=sys.stderr, flush=True
        )
        self._ask()
