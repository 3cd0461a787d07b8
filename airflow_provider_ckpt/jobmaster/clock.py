"""The driver's time: intervals and deadlines must not depend on somebody setting the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Epoch seconds: :meth:`now` is the wall clock of the moment it was made plus what has really passed since, so it
    never goes back; :meth:`wall` is what the machine says now, for times that a user gave."""

    def __init__(self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic) -> None:
        """``wall``: epoch seconds, default ``time.time``; ``steady``: seconds that never go back."""
        self.wall = time.time if wall is None else wall
        self._steady = steady
        self._offset = self.wall() - steady()

    def now(self) -> float:
        return self._offset + self._steady()

    def told(self, at: float) -> float:
        """A moment of :meth:`now`, as the machine tells it that is asked now: its clock may have been set meanwhile."""
        return at + self.wall() - self.now()
