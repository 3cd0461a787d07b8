"""The status of the job, from CREATED to how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.coordinator.messages import Append, EndJob
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.journal.events import StatusChanged

FinalStatus = Literal["FINISHED", "STOPPED", "FAILED", "RESTARTING"]


@dataclass(frozen=True)
class _Ending:
    """How the job ends once nothing completed is unreleased; ``at_once``: without waiting for that,
    because it is the release that cannot go on."""

    status: FinalStatus
    cause: str | None
    at_once: bool = False


class JobStatus:
    """CREATED until every subtask that must acknowledge runs, RUNNING until it is decided how the job ends
    and what completed is released; over afterwards."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ending: _Ending | None = None
        self.name = "CREATED"
        self.is_over = False

    @property
    def is_ending(self) -> bool:
        """It is decided how the job ends; nothing new is begun."""
        return self._ending is not None

    @property
    def work_is_done(self) -> bool:
        """Every subtask is at its end of data, and a completed checkpoint covers it."""
        return self._parts.subtasks.all_ended and not self._parts.cycle.wanted

    @property
    def waits_for_savepoint(self) -> bool:
        stop = self._parts.requests.stop
        if stop is None or stop.savepoint is not None or self.is_ending:
            return False
        return not self.work_is_done

    def note_running(self, now: float) -> None:
        parts = self._parts
        if self.name != "CREATED" or self.is_ending or not parts.subtasks.some_active:
            return
        if not parts.subtasks.blocked or not parts.options.periodic:
            self.name = "RUNNING"
            parts.out.append(Append(StatusChanged("RUNNING", now)))
            parts.cycle.start_interval(now)

    def end(self, status: FinalStatus, cause: str | None, at_once: bool = False) -> None:
        """Decide how the job ends. The first decision holds; only one ``at_once`` overrides one that waits."""
        if self._ending is not None and not (at_once and not self._ending.at_once):
            return
        if status == "RESTARTING" and self._parts.requests.stop is not None:
            status = "STOPPED"  # whoever stops the job does not want it back; the cause tells
        if cause is not None:
            cause = f"{cause}; last completed checkpoint: {self._parts.cycle.last_completed or 'none'}"
        self._ending = _Ending(status, cause, at_once)

    def end_if_done(self, now: float) -> None:
        """Decide it if the job came to its end or stopped, and end it once nothing holds the end up."""
        self._decide()
        ending = self._ending
        if ending is None or self.is_over or self._waits_for_releases(ending):
            return
        self.is_over = True
        self.name = ending.status
        self._parts.out.append(Append(StatusChanged(ending.status, now, ending.cause)))
        self._parts.out.append(EndJob(ending.status, ending.cause))

    def _waits_for_releases(self, ending: _Ending) -> bool:
        releases = self._parts.releases
        if ending.at_once or not len(releases):
            return False
        # the next driver rolls forward anyway: one that failed need not try an unreachable sink for minutes first
        return not (ending.status == "RESTARTING" and releases.is_failing)

    def _decide(self) -> None:
        parts = self._parts
        if parts.cycle.pending is not None or len(parts.releases):
            return
        stop = parts.requests.stop
        if parts.subtasks.all_finished:
            self.end("FINISHED", None)
        elif stop is not None and not self.work_is_done:
            batch = not parts.options.periodic and not parts.subtasks.all_ended
            if stop.savepoint is not None or batch:
                self.end("STOPPED", None)
