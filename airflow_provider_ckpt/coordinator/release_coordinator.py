"""The execution of releases: requests to every sink, and the consequences of the sinks' answers."""

from __future__ import annotations

import re

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.effects import Append, Notice, Release
from airflow_provider_ckpt.coordinator.protocol.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.journal.events import CheckpointReleased, SinkReleased
from airflow_provider_ckpt.model.job_status import JobStatus


class ReleaseCoordinator:
    """The releases of all sinks: their requests, results and retries.

    A release that cannot succeed ends the run, after the other sinks have released every completed checkpoint. The run
    also ends if a release fails for longer than ``sink_timeout`` and no other sink is released meanwhile.
    """

    def __init__(self, state: CoordinatorState, job: JobLifecycle) -> None:
        self._state, self._job, self._releases = state, job, state.releases

    def advance(self, now: float) -> None:
        """Request all releases that are due. A job without sinks releases each completed checkpoint at once."""
        for sink, checkpoint in self._releases.begin_due(now):
            self._state.out.append(Release(checkpoint, sink))
        self._journal_released(now)

    def done(self, message: ReleaseDone, now: float) -> bool:
        """Record a successful release. Return False if the release was not awaited, as ``failed`` and ``held`` do."""
        if not self._releases.done(message.sink, message.checkpoint, message.counts):
            return False
        if not self._journal_released(now, answer=message):
            self._journal_sink_released(message, now)
        return True

    def failed(self, message: ReleaseFailed, now: float) -> bool:
        queue = self._releases[message.sink]
        if not queue.failed(message.checkpoint, now):
            return False
        if message.terminal or queue.is_exhausted(now):
            queue.is_abandoned = True
            waited = "" if message.terminal else f" for {queue.waited(now):.0f} s (sink_timeout)"
            cause = f"release of checkpoint {message.checkpoint} in {message.sink!r} failed{waited}: {message.cause}"
            self._state.cycle.abort(CheckpointFailureReason.JOB_STOPPED, now)
            self._job.end(JobStatus.FAILED if message.terminal else JobStatus.RESTARTING, cause, at_once=True)
        elif queue.tries & (queue.tries - 1) == 0:  # 1, 2, 4, 8 …: failures over hours must not fill the log
            text = waiting_message(message.sink, queue.waited(now), message.cause)
            text = f"{text}; the release of checkpoint {message.checkpoint} is tried again"
            self._state.out.append(Notice(text, is_warning=True))
        return True

    def held(self, message: ReleaseHeld, now: float) -> bool:
        queue = self._releases[message.sink]
        previous_gate = queue.held_by
        if not queue.held(message.checkpoint, message.gate_of, now):
            return False
        if previous_gate != message.gate_of:
            is_own = message.gate_of == message.sink
            releases = "its releases" if is_own else f"the releases of {message.sink!r}, which shares its transaction"
            text = f"the gate of {message.gate_of!r} holds {releases}, from checkpoint {message.checkpoint} on"
            self._state.out.append(Notice(f"{text}; checkpoints continue, and what they cover stays staged", True))
        return True

    def _journal_released(self, now: float, answer: ReleaseDone | None = None) -> bool:
        """Journal the newest checkpoint that all sinks have released. Return False if the journal has it already.

        If ``answer`` reports one sink's release of a later checkpoint, the answer is journaled first.
        """
        reached = self._releases.advance()
        if reached is None:
            return False
        checkpoint, counts = reached
        if answer is not None and answer.checkpoint > checkpoint:
            self._journal_sink_released(answer, now)
        self._state.out.append(Append(CheckpointReleased(checkpoint, now, counts)))
        return True

    def _journal_sink_released(self, message: ReleaseDone, now: float) -> None:
        self._state.out.append(Append(SinkReleased(message.sink, message.checkpoint, now, message.counts)))


def waiting_message(sink: str, seconds: float, cause: str) -> str:
    """Return the status line about a sink whose target has accepted nothing for ``seconds``.

    Args:
        cause: the error as text. The message omits a leading ``sink '…' of job '…'``.
    """
    text = re.sub(rf"\Asink {re.escape(repr(sink))} of job '[^']*' ", "", cause)
    return f"sink {sink}: has waited {seconds:.0f} s, {text.rstrip('.')}"
