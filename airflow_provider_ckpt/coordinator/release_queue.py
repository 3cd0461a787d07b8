"""The releases of one sink: ascending, one at a time, and independent of other sinks (R9).

The newest completed checkpoint that the sink lacks is requested, because its release covers the earlier ones. If a
driver died during a release, the sink completes it as a part of the next one, whichever that is
(:class:`~airflow_provider_ckpt.sinks.sink.BoundSink`, invariant 4).
"""

from __future__ import annotations

FIRST_BACKOFF = 1.0
"""Seconds from a failed release to the next try. The time doubles with each failure."""
MAX_BACKOFF = 30.0
GATE_PAUSE = 5.0
"""Seconds before a closed gate that holds a release is polled again."""


class ReleaseQueue:
    """The releases of one sink.

    Args:
        released: the last checkpoint that the sink has released.
        completed: the last completed checkpoint of the job.
        timeout: seconds for which releases may fail, while no other sink is released, before the run ends.
    """

    def __init__(self, released: int, completed: int, timeout: float) -> None:
        self.released = released
        self.held_by: str | None = None
        """The sink whose gate was closed at the last try: this one, or another of its transaction."""
        self.is_idle = False
        """The last release had nothing to do. Such a sink gets its rows with the final checkpoint."""
        self.is_given_up = False
        """The sink is not tried again in this run."""
        self._completed = max(released, completed)
        self._asked = 0
        self._is_under_way = False
        self._tries = 0
        self._timeout = timeout
        self._waiting_since: float | None = None
        """Time of the first try since the last success."""
        self._fruitless_since: float | None = None
        """Time of the first try since the last success of any sink."""
        self._retry_at: float | None = None

    @property
    def is_held(self) -> bool:
        return self.held_by is not None

    @property
    def is_behind(self) -> bool:
        return self._completed > self.released

    @property
    def under_way(self) -> int | None:
        return self._asked if self._is_under_way else None

    @property
    def next_try(self) -> float | None:
        """Return when a failed or held release is tried again, or None."""
        return None if self.is_given_up else self._retry_at

    @property
    def tries(self) -> int:
        """Return how often the current release was tried."""
        return self._tries

    @property
    def is_failing(self) -> bool:
        """Return whether the last try failed."""
        return self.is_given_up or (self._retry_at is not None and not self.is_held)

    def is_exhausted(self, now: float) -> bool:
        since = self._fruitless_since
        return not self._is_under_way and since is not None and now - since >= self._timeout

    def waited(self, now: float) -> float:
        """Return the seconds since the first try of the release that still fails."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def completed(self, checkpoint: int) -> None:
        self._completed = max(self._completed, checkpoint)

    def ask(self, now: float) -> int | None:
        """Return the checkpoint to release now, or None. The release then counts as in progress."""
        if not self.is_behind or self._is_under_way or self.is_given_up:
            return None
        if self._retry_at is not None and now < self._retry_at:
            return None
        self._is_under_way, self._retry_at, self._asked = True, None, self._completed
        self._tries += 1
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        self._fruitless_since = now if self._fruitless_since is None else self._fruitless_since
        return self._asked

    def done(self, checkpoint: int) -> bool:
        """Record that a release succeeded. Return False if the answer is a repetition.

        The answer counts even if its try was already counted as failed.
        """
        if checkpoint != self._asked or checkpoint <= self.released:
            return False
        self.released = checkpoint
        self._is_under_way, self.held_by = False, None
        self._tries, self._retry_at = 0, None
        self._waiting_since = self._fruitless_since = None
        return True

    def failed(self, checkpoint: int, now: float) -> bool:
        """Record that a release failed. Return False if no such release is in progress."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, None
        self._retry_at = now + min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(self._tries - 1, 10))
        return True

    def held(self, checkpoint: int, gate_of: str, now: float) -> bool:
        """Record that a gate holds the release. Return False if no such release is in progress."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, gate_of
        self._tries, self._retry_at = 0, now + GATE_PAUSE
        self._waiting_since = self._fruitless_since = None
        return True

    def others_went_on(self) -> None:
        """Record that the target of another sink has answered.

        The run is then useful even if this sink's target does not answer.
        """
        self._fruitless_since = None
