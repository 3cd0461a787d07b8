"""Stop and drain: what was asked of the job, how far it is, and who waits to hear how it went.

stop, drain and finish are three things (FLINK-21132). After a stop no source is finished; the next
run goes on from the savepoint. A drain ends the sources for good. A stop wins over a drain in
progress: what was drained by then can only go to its end of data in the next run (R12), the rest goes on.
A drain during a stop is refused.

A request is answered twice: when it is taken, and when it is known how it went (completed or
failed). One that is refused is answered once.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.failures import FailureTracker
from airflow_provider_ckpt.coordinator.messages import StopRequested
from airflow_provider_ckpt.model.request_outcome import IN_PROGRESS, RequestOutcome, RequestResult
from airflow_provider_ckpt.model.subtask_id import SubtaskId

UPGRADE = "upgrade"
"""Kind of request."""


def in_progress(upgrade: str) -> str:
    """Ends as the refusal of a second change does: whoever asks waits, and asks again."""
    return f"upgrade {upgrade} {IN_PROGRESS}"


@dataclass
class Stop:
    """A stop in progress. ``leaves``: the job ends also when the stop fails. ``savepoint``: the completed
    one, None before. ``failures``: of its own savepoints, which say nothing about the job's checkpoints."""

    deadline: float
    leaves: bool
    failures: FailureTracker
    savepoint: int | None = None
    upgrade: str | None = None
    """The request for which the job is to go on behind it, as another version."""

    @property
    def why(self) -> str:
        """Why nothing else can be done for now."""
        return "the job is being stopped" if self.upgrade is None else in_progress(self.upgrade)


class Requests:
    def __init__(self, draining: bool, tolerable_failed: int) -> None:
        self.stop: Stop | None = None
        self.draining = draining
        self.drains_at_once = False
        """Live sources end where they stand."""
        self.trying: str | None = None
        """The request for which another version of the job is being loaded and tried."""
        self._tolerable_failed = tolerable_failed
        self._drained: set[SubtaskId] = set()
        self._seen: set[str] = set()
        self._open: dict[str, str] = {}

    @property
    def upgrade(self) -> str | None:
        """The request of the upgrade that is in progress."""
        if self.trying is not None or self.stop is None:
            return self.trying
        return self.stop.upgrade

    def is_new(self, request: str | None) -> bool:
        """False for a request that was taken already (requests are read again and again)."""
        if request is None:
            return True
        new = request not in self._seen
        self._seen.add(request)
        return new

    def take(self, message: StopRequested, deadline: float) -> RequestOutcome:
        """The outcome, as it is answered. ``deadline``: of a stop that begins with this request."""
        if message.mode == "drain" and self.stop is not None:
            return RequestOutcome.refused(self.stop.why)
        self.note(message.request, message.mode)
        if message.mode == "stop":
            return self._take_stop(message, deadline)
        if message.at_once and not self.drains_at_once:
            self.drains_at_once = True
            self._drained.clear()  # subtasks that read what is there hear of it
        if self.draining:
            return RequestOutcome(RequestResult.ALREADY_DRAINING)
        self.draining = True
        return RequestOutcome(RequestResult.ACCEPTED)

    def _take_stop(self, message: StopRequested, deadline: float) -> RequestOutcome:
        if self.stop is not None:
            self.stop.leaves = self.stop.leaves or message.leaves
            self.stop.upgrade = None  # who stops wants it stopped
            return RequestOutcome(RequestResult.ALREADY_STOPPING)
        self.stop = Stop(deadline, message.leaves, FailureTracker(self._tolerable_failed))
        return RequestOutcome(RequestResult.ACCEPTED)

    def stop_for(self, upgrade: str, deadline: float) -> None:
        """A stop for the sake of an upgrade. Only if there is none yet."""
        assert self.stop is None
        self.stop = Stop(deadline, leaves=False, failures=FailureTracker(self._tolerable_failed), upgrade=upgrade)

    def note(self, request: str | None, mode: str) -> None:
        """It was taken, and waits for its last answer."""
        if request is not None:
            self._open[request] = mode

    def close_one(self, request: str | None) -> None:
        """It gets its last answer."""
        if request is not None:
            self._open.pop(request, None)

    def close(self, *modes: str) -> list[tuple[str, str]]:
        """(request, mode) of those of ``modes`` that wait for their last answer; each is returned once."""
        closed = [(request, mode) for request, mode in self._open.items() if mode in modes]
        for request, _ in closed:
            del self._open[request]
        return closed

    def begin_again(self, subtask: SubtaskId) -> None:
        """Its next attempt has not been told to drain."""
        self._drained.discard(subtask)

    def drain_once(self, subtask: SubtaskId) -> bool:
        """True the first time."""
        new = subtask not in self._drained
        self._drained.add(subtask)
        return new
