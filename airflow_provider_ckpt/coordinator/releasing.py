"""Asks for the releases of every sink, and says what became of them and what follows for the job."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.effects import Append, Notice, Release
from airflow_provider_ckpt.coordinator.failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.release_queue import MAX_TRIES
from airflow_provider_ckpt.journal.events import CheckpointReleased, SinkReleased
from airflow_provider_ckpt.model.job_status import JobStatus


class Releasing:
    """A release that fails is tried again; one that cannot succeed, or that failed :data:`MAX_TRIES` times in a row
    while no other sink got anything, ends the run, once the other sinks have what is completed."""

    def __init__(self, parts: Parts, job: JobLifecycle) -> None:
        self._parts, self._job, self._releases = parts, job, parts.releases

    def advance(self, now: float) -> None:
        """Ask for what is completed, of every sink that is not at work. A job without sinks has nothing to wait for."""
        for sink, checkpoint in self._releases.ask(now):
            self._parts.out.append(Release(checkpoint, sink))
        self._tell(now)

    def done(self, message: ReleaseDone, now: float) -> bool:
        """False if nobody waits for this answer; so of the others."""
        if not self._releases.done(message.sink, message.checkpoint, message.counts):
            return False
        if not self._tell(now, upon=message):
            self._tell_of(message, now)
        return True

    def failed(self, message: ReleaseFailed, now: float) -> bool:
        queue = self._releases[message.sink]
        if not queue.failed(message.checkpoint, now):
            return False
        if message.terminal or queue.is_exhausted:
            queue.is_given_up = True
            times = "" if message.terminal else f" {MAX_TRIES} times"
            cause = f"release of checkpoint {message.checkpoint} in {message.sink!r} failed{times}: {message.cause}"
            self._parts.cycle.abort(CheckpointFailureReason.JOB_STOPPED, now)
            self._job.end(JobStatus.FAILED if message.terminal else JobStatus.RESTARTING, cause, at_once=True)
        elif queue.tries & (queue.tries - 1) == 0:  # 1, 2, 4, 8 …: one that fails for hours fills no log
            text = f"release of checkpoint {message.checkpoint} in {message.sink!r} failed (try {queue.tries})"
            self._parts.out.append(Notice(f"{text}, and is tried again: {message.cause}", is_warning=True))
        return True

    def held(self, message: ReleaseHeld, now: float) -> bool:
        queue = self._releases[message.sink]
        before = queue.held_by
        if not queue.held(message.checkpoint, message.gate_of, now):
            return False
        if before != message.gate_of:
            its = message.gate_of == message.sink
            held = "its releases" if its else f"those of {message.sink!r}, which shares its transaction"
            text = f"the gate of {message.gate_of!r} holds {held}, from checkpoint {message.checkpoint} on"
            self._parts.out.append(Notice(f"{text}; checkpoints go on, and what they cover stays staged", True))
        return True

    def _tell(self, now: float, upon: ReleaseDone | None = None) -> bool:
        """The newest checkpoint that all sinks have. False if that says nothing of what is told ``upon``."""
        reached = self._releases.advance()
        if reached is None:
            return False
        checkpoint, counts = reached
        is_ahead = upon is not None and upon.checkpoint > checkpoint
        if is_ahead and upon is not None:
            self._tell_of(upon, now)
        self._parts.out.append(Append(CheckpointReleased(checkpoint, now, counts)))
        return True

    def _tell_of(self, message: ReleaseDone, now: float) -> None:
        self._parts.out.append(Append(SinkReleased(message.sink, message.checkpoint, now, message.counts)))
