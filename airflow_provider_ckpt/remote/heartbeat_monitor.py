"""A check whether another process is alive, without comparing two clocks (W3, W26)."""

from __future__ import annotations


class HeartbeatMonitor:
    """The silence of one process: the time for which its beat has not changed.

    At most ``longest_gap`` seconds between two polls count. So a suspension of this process, or an unreachable storage,
    does not make the other process count as lost.
    """

    def __init__(self, limit: float, longest_gap: float, first_limit: float | None = None) -> None:
        """Start without any observation.

        Args:
            limit: Seconds without a new beat after which the process counts as lost.
            longest_gap: Maximum seconds that count between two polls.
            first_limit: The limit, in seconds, until the beat changes for the first time; None for ``limit``.
        """
        self.limit, self._longest_gap = limit if first_limit is None else first_limit, longest_gap
        self._next_limit = limit
        self._beat: object = None
        self._observed_at: float | None = None
        self.silent = 0.0
        """Counted seconds since the last change of the beat."""

    def observe(self, beat: object, now: float) -> None:
        """Record the beat that a successful poll has read. ``now`` is in seconds of this process's clock."""
        if self._observed_at is not None and beat != self._beat:
            self.limit = self._next_limit
        if beat != self._beat or self._observed_at is None:
            self._beat, self.silent = beat, 0.0
        else:
            self.silent += min(now - self._observed_at, self._longest_gap)
        self._observed_at = now

    @property
    def is_lost(self) -> bool:
        return self.silent >= self.limit
