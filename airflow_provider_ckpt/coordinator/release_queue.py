"""The releases of one sink: ascending, one at a time (R9), and none of another sink's business.

What is asked for is the newest completed checkpoint that the sink lacks, which releases what those before it cover,
too. A driver may have died in the middle of a release: the sink finishes it as a part of the next one, whichever that
is (:class:`~airflow_provider_ckpt.sinks.sink.BoundSink`, invariant 4).
"""

from __future__ import annotations

FIRST_BACKOFF = 1.0
"""Seconds before a failed release is asked for again; doubled each time."""
MAX_BACKOFF = 30.0
GATE_PAUSE = 5.0
"""Seconds before a gate that holds a release is asked again."""


class ReleaseQueue:
    """``released``: the last checkpoint that the sink has; ``completed``: the job's last one. ``timeout``: seconds for
    which a release may fail, while nothing else of the job is released, before the run is given up."""

    def __init__(self, released: int, completed: int, timeout: float) -> None:
        self.released = released
        self.held_by: str | None = None
        """The sink whose gate was closed when it was asked last, itself or one of its transaction."""
        self.is_idle = False
        """There was nothing to do for it when it was asked last: it takes what comes with the final checkpoint."""
        self.is_given_up = False
        """It is not asked for again in this run."""
        self._completed = max(released, completed)
        self._asked = 0
        self._is_under_way = False
        self._tries = 0
        self._timeout = timeout
        self._waiting_since: float | None = None
        """When the release was first asked for that has failed since."""
        self._fruitless_since: float | None = None
        """The same, but for what other sinks were released meanwhile."""
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
        """When one that failed, or is held, is asked for again."""
        return None if self.is_given_up else self._retry_at

    @property
    def tries(self) -> int:
        """Of the release that is asked for."""
        return self._tries

    @property
    def is_failing(self) -> bool:
        """The last try failed."""
        return self.is_given_up or (self._retry_at is not None and not self.is_held)

    def is_exhausted(self, now: float) -> bool:
        since = self._fruitless_since
        return not self._is_under_way and since is not None and now - since >= self._timeout

    def waited(self, now: float) -> float:
        """Return the seconds since the release was first asked for that has failed since."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def completed(self, checkpoint: int) -> None:
        self._completed = max(self._completed, checkpoint)

    def ask(self, now: float) -> int | None:
        """The checkpoint to release now, if any; it is under way from here on."""
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
        """False if nobody waits for this answer (a repeated one). An answer to a try that was counted as failed is
        still true."""
        if checkpoint != self._asked or checkpoint <= self.released:
            return False
        self.released = checkpoint
        self._is_under_way, self.held_by = False, None
        self._tries, self._retry_at = 0, None
        self._waiting_since = self._fruitless_since = None
        return True

    def failed(self, checkpoint: int, now: float) -> bool:
        """False if nobody waits for this answer."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, None
        self._retry_at = now + min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(self._tries - 1, 10))
        return True

    def held(self, checkpoint: int, gate_of: str, now: float) -> bool:
        """False if nobody waits for this answer."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, gate_of
        self._tries, self._retry_at = 0, now + GATE_PAUSE
        self._waiting_since = self._fruitless_since = None
        return True

    def others_went_on(self) -> None:
        """Another sink's target has answered: the run is of use, whatever this sink's target does."""
        self._fruitless_since = None
