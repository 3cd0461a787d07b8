"""The order of releases: ascending, one at a time, each completed checkpoint by itself (R9).

None is skipped, even when several wait. A release may have moved half of its data when the driver
dies; the next driver must repeat *that* release, and the only one that can have been under way is then
the lowest unreleased one.
"""

from __future__ import annotations

from collections import deque

FIRST_BACKOFF = 1.0
"""Seconds before a failed release is asked for again; doubled each time."""
MAX_BACKOFF = 30.0
MAX_TRIES = 10


class ReleaseQueue:
    """Completed checkpoints that wait for their release; the first may be under way."""

    def __init__(self, last_released: int, unreleased: tuple[int, ...]) -> None:
        self.last_released = last_released
        self._waiting = deque(sorted(unreleased))
        self._asked = False
        self._tries = 0
        self._retry_at: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int | None:
        return self._waiting[0] if self._asked else None

    @property
    def next_try(self) -> float | None:
        """When a failed release is asked for again."""
        return self._retry_at

    def completed(self, checkpoint: int) -> None:
        self._waiting.append(checkpoint)

    def ask(self, now: float) -> int | None:
        """The checkpoint to release now, if any; it is under way from here on."""
        if not self._waiting or self._asked or (self._retry_at is not None and now < self._retry_at):
            return None
        self._asked, self._retry_at = True, None
        self._tries += 1
        return self._waiting[0]

    def done(self, checkpoint: int) -> bool:
        """False if nobody waits for this answer (a repeated one). An answer to a try that was counted
        as failed is still true."""
        if self._tries == 0 or not self._waiting or self._waiting[0] != checkpoint:
            return False
        self.last_released = self._waiting.popleft()
        self._asked, self._tries, self._retry_at = False, 0, None
        return True

    def failed(self, checkpoint: int, now: float) -> bool:
        """False if nobody waits for this answer."""
        if not self._asked or self._waiting[0] != checkpoint:
            return False
        self._asked = False
        self._retry_at = now + min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** (self._tries - 1))
        return True

    @property
    def is_failing(self) -> bool:
        """The last try of the first one failed; it is asked for again later."""
        return self._retry_at is not None

    @property
    def exhausted(self) -> bool:
        return not self._asked and self._tries >= MAX_TRIES
