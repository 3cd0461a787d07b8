"""Stop and drain: what was asked of the job, and how far it is.

stop, drain and finish are three things (FLINK-21132). After a stop no source is finished; the next
run goes on from the savepoint. A drain ends the sources for good. A stop wins over a drain in
progress: what was drained by then can only go to its end of data in the next run (R12), the rest goes on.
A drain during a stop is refused.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Stop:
    """A stop in progress. ``savepoint``: the completed one, None before."""

    deadline: float
    savepoint: int | None = None


class Requests:
    def __init__(self, draining: bool) -> None:
        self.stop: Stop | None = None
        self.draining = draining
        self._drained: set[str] = set()
        self._answered: set[str] = set()

    def is_new(self, request: str | None) -> bool:
        """False for a request that was taken already (requests are read again and again)."""
        if request is None:
            return True
        new = request not in self._answered
        self._answered.add(request)
        return new

    def take(self, mode: str, deadline: float) -> str:
        """The outcome, as it is answered."""
        if self.stop is not None:
            return "already stopping" if mode == "stop" else "refused: the job is being stopped"
        if mode == "stop":
            self.stop = Stop(deadline)
            return "accepted"
        if self.draining:
            return "already draining"
        self.draining = True
        return "accepted"

    def drain_once(self, subtask: str) -> bool:
        """True the first time."""
        new = subtask not in self._drained
        self._drained.add(subtask)
        return new
