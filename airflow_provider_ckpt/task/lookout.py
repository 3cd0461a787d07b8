"""When to see whether what a bounded source has still to read is there at all."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_LOOK = 30.0
LONGEST_PAUSE = 600.0
"""Seconds between looks at whether what a source reads, which reads nothing, still exists."""


@dataclass
class Lookout:
    """Of one source."""

    _left: object = None
    _pause: float = 0.0
    _look_at: float = 0.0

    def is_due(self, left: object, now: float) -> bool:
        """``left``: what is still to be read, false if that is nothing; asked all the time. True after ``FIRST_LOOK``
        seconds in which it stayed so, then after pauses that double up to ``LONGEST_PAUSE``."""
        if left != self._left:
            self._left, self._pause, self._look_at = left, FIRST_LOOK, now + FIRST_LOOK
        if not left or now < self._look_at:
            return False
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._look_at = now + self._pause
        return True
