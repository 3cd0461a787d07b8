"""Stop and drain requests: their progress, and the answers that are still open.

After a stop no source is finished, and the next run resumes from the savepoint. A drain ends the sources for good
(FLINK-21132). A stop overrides a drain in progress. In the next run, drained subtasks reach their end of data (R12) and
other subtasks resume. A drain during a stop is refused.

A request is answered when it is accepted, and again when its outcome is known. A refused request gets one answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import FailureTracker
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import DrainRequest, StopRequest
from airflow_provider_ckpt.model.request_outcome import IN_PROGRESS, RequestOutcome, RequestResult


def in_progress(upgrade: str) -> str:
    """Return why a request is refused during an upgrade. A client that reads the end of this text retries."""
    return f"upgrade {upgrade} {IN_PROGRESS}"


@dataclass
class Stop:
    """A stop in progress.

    Attributes:
        deadline: time by which the savepoint must be complete, in seconds of the coordinator's clock.
        exit_if_it_fails: True if the run ends even if its savepoint fails.
        failures: failed savepoints of the stop, which do not count against the job's checkpoints.
        savepoint: number of the completed savepoint; None before its completion.
    """

    deadline: float
    exit_if_it_fails: bool
    failures: FailureTracker
    savepoint: int | None = None
    upgrade: str | None = None
    """Name of the upgrade request after whose stop the job resumes as another version, or None."""

    @property
    def why(self) -> str:
        """Return why other requests are refused during this stop."""
        return "the job is being stopped" if self.upgrade is None else in_progress(self.upgrade)


class Requests:
    def __init__(self, draining: bool, tolerable_failed: int) -> None:
        self.stop: Stop | None = None
        self.draining = draining
        self.drains_at_once = False
        """True if live sources end without further reading."""
        self.trying: str | None = None
        """Name of the upgrade request whose version is being loaded and tried, or None."""
        self._tolerable_failed = tolerable_failed
        self._drained: set[SubtaskId] = set()
        self._seen: set[str] = set()
        self._open: dict[str, str] = {}

    @property
    def upgrade(self) -> str | None:
        """Return the name of the upgrade request in progress, or None."""
        if self.trying is not None or self.stop is None:
            return self.trying
        return self.stop.upgrade

    def note_seen(self, request: str | None) -> bool:
        """Record that a request was read. Return True if it has no name or was not read before."""
        if not request:
            return True
        is_new = request not in self._seen
        self._seen.add(request)
        return is_new

    def take_drain(self, message: DrainRequest) -> RequestOutcome:
        """Accept or refuse a drain and return the outcome for its first answer."""
        if self.stop is not None:
            return RequestOutcome.refused(self.stop.why)
        self.note(message.name, message.kind)
        if message.at_once and not self.drains_at_once:
            self.drains_at_once = True
            self._drained.clear()  # subtasks that still read get the command again
        if self.draining:
            return RequestOutcome(RequestResult.ALREADY_DRAINING)
        self.draining = True
        return RequestOutcome(RequestResult.ACCEPTED)

    def take_stop(self, message: StopRequest, deadline: float) -> RequestOutcome:
        """Accept a stop and return the outcome for its first answer. A stop in progress keeps its own deadline."""
        self.note(message.name, message.kind)
        if self.stop is not None:
            self.stop.exit_if_it_fails = self.stop.exit_if_it_fails or message.exit_if_it_fails
            self.stop.upgrade = None  # an explicit stop overrides the upgrade
            return RequestOutcome(RequestResult.ALREADY_STOPPING)
        self.stop = Stop(deadline, message.exit_if_it_fails, FailureTracker(self._tolerable_failed))
        return RequestOutcome(RequestResult.ACCEPTED)

    def stop_for(self, upgrade: str, deadline: float) -> None:
        """Begin a stop for an upgrade. No other stop may be in progress."""
        assert self.stop is None
        self.stop = Stop(
            deadline, exit_if_it_fails=False, failures=FailureTracker(self._tolerable_failed), upgrade=upgrade
        )

    def note(self, request: str | None, kind: str) -> None:
        """Record that a request was accepted and waits for its last answer."""
        if request:
            self._open[request] = kind

    def close_request(self, request: str | None) -> None:
        """Record that a request gets its last answer."""
        if request is not None:
            self._open.pop(request, None)

    def close(self, kind: str | None) -> list[tuple[str, str]]:
        """Close the open requests of one kind, or all if ``kind`` is None. Return (name, kind) of each."""
        closed = [(request, open_kind) for request, open_kind in self._open.items() if kind in (open_kind, None)]
        for request, _ in closed:
            del self._open[request]
        return closed

    def attempt_began(self, subtask: SubtaskId) -> None:
        """Record that the next attempt of the subtask has begun, and needs its own drain command."""
        self._drained.discard(subtask)

    def drain_once(self, subtask: SubtaskId) -> bool:
        """Return True if the subtask's attempt still needs its drain command, and record that it gets the command."""
        is_first = subtask not in self._drained
        self._drained.add(subtask)
        return is_first
