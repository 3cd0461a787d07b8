"""The execution of releases: requests to every sink, journal entries about the results, and the consequences for the
job.
"""

from __future__ import annotations

import re

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Notice, Release
from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.journal.events import CheckpointReleased, SinkReleased
from airflow_provider_ckpt.model.job_status import JobStatus


def waiting(sink: str, seconds: float, cause: str) -> str:
    """Return the status line about a sink whose target does not accept rows for now.

    Args:
        sink: the sink's uid.
        seconds: how long the target has accepted nothing.
        cause: the error as text. The repeated names of sink and job are cut off.
    """
    what = re.sub(rf"\Asink {re.escape(repr(sink))} of job '[^']*' ", "", cause)
    return f"sink {sink}: has waited {seconds:.0f} s, {what.rstrip('.')}"


class ReleaseCoordinator:
    """The retries of failed releases.

    A release that cannot succeed ends the run, once the other sinks have released what is completed. A release that
    fails for longer than ``sink_timeout`` ends the run, too, if no other sink was released in that time.
    """

    def __init__(self, parts: CoordinatorState, job: JobLifecycle) -> None:
        self._parts, self._job, self._releases = parts, job, parts.releases

    def advance(self, now: float) -> None:
        """Request the release of completed checkpoints from every idle sink. A job without sinks releases at once."""
        for sink, checkpoint in self._releases.ask(now):
            self._parts.out.append(Release(checkpoint, sink))
        self._tell(now)

    def done(self, message: ReleaseDone, now: float) -> bool:
        """Record a successful release. Return False if the answer is a repetition, like the other methods."""
        if not self._releases.done(message.sink, message.checkpoint, message.counts):
            return False
        if not self._tell(now, upon=message):
            self._tell_of(message, now)
        return True

    def failed(self, message: ReleaseFailed, now: float) -> bool:
        queue = self._releases[message.sink]
        if not queue.failed(message.checkpoint, now):
            return False
        if message.terminal or queue.is_exhausted(now):
            queue.is_abandoned = True
            waited = "" if message.terminal else f" for {queue.waited(now):.0f} s (sink_timeout)"
            cause = f"release of checkpoint {message.checkpoint} in {message.sink!r} failed{waited}: {message.cause}"
            self._parts.cycle.abort(CheckpointFailureReason.JOB_STOPPED, now)
            self._job.end(JobStatus.FAILED if message.terminal else JobStatus.RESTARTING, cause, at_once=True)
        elif queue.tries & (queue.tries - 1) == 0:  # 1, 2, 4, 8 …: failures over hours must not fill the log
            text = waiting(message.sink, queue.waited(now), message.cause)
            text = f"{text}; the release of checkpoint {message.checkpoint} is tried again"
            self._parts.out.append(Notice(text, is_warning=True))
        return True

    def held(self, message: ReleaseHeld, now: float) -> bool:
        queue = self._releases[message.sink]
        before = queue.held_by
        if not queue.held(message.checkpoint, message.gate_of, now):
            return False
        if before != message.gate_of:
            its = message.gate_of == message.sink
            held = "its releases" if its else f"the releases of {message.sink!r}, which shares its transaction"
            text = f"the gate of {message.gate_of!r} holds {held}, from checkpoint {message.checkpoint} on"
            self._parts.out.append(Notice(f"{text}; checkpoints continue, and what they cover stays staged", True))
        return True

    def _tell(self, now: float, upon: ReleaseDone | None = None) -> bool:
        """Journal the newest checkpoint that all sinks have, if it is new.

        Return whether ``upon`` needs no entry of its own any longer.
        """
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
