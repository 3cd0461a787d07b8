"""Whether another process lives, judged without comparing two clocks (W3, W26)."""

from __future__ import annotations


class Liveness:
    """Of one process, by its beat. Only time between close looks counts: if it is this process that was stopped, or the
    storage that could not be reached, nobody else is blamed for it."""

    def __init__(self, limit: float, longest_look: float, first_limit: float | None = None) -> None:
        """``limit``: seconds without a new beat after which it counts as lost; ``first_limit``: as long as none was
        seen to change, if that is another one. ``longest_look``: so many of the seconds between two looks count at
        most."""
        self.limit, self._longest = limit if first_limit is None else first_limit, longest_look
        self._next_limit = limit
        self._beat: object = None
        self._looked_at: float | None = None
        self.silent = 0.0
        """Seconds, as far as they count, since the beat changed last."""

    def see(self, beat: object, now: float) -> None:
        """``beat``: what the process shows now. Called after each successful look."""
        if self._looked_at is not None and beat != self._beat:
            self.limit = self._next_limit
        if beat != self._beat or self._looked_at is None:
            self._beat, self.silent = beat, 0.0
        else:
            self.silent += min(now - self._looked_at, self._longest)
        self._looked_at = now

    @property
    def is_lost(self) -> bool:
        return self.silent >= self.limit
