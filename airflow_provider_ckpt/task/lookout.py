"""The times at which to check that the remaining input of a bounded source still exists."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_LOOK = 30.0
LONGEST_PAUSE = 600.0
"""Longest pause in seconds between two checks of a source that has input left but reads nothing."""


@dataclass
class Lookout:
    """The check times of one source."""

    _left: object = None
    _pause: float = 0.0
    _look_at: float = 0.0

    def is_due(self, left: object, now: float) -> bool:
        """Return whether to check now. This may be called at any rate.

        The first check is due after ``FIRST_LOOK`` seconds without progress. The next pauses double, up to
        ``LONGEST_PAUSE``.

        Args:
            left: the input that is not read, or a false value if there is none.
            now: current time.
        """
        if left != self._left:
            self._left, self._pause, self._look_at = left, FIRST_LOOK, now + FIRST_LOOK
        if not left or now < self._look_at:
            return False
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._look_at = now + self._pause
        return True
