"""Which checkpoint is triggered when, and what one that failed means for the job."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.checkpointing import Completed
from airflow_provider_ckpt.coordinator.failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.job_status import JobStatus
from airflow_provider_ckpt.coordinator.options import MAX_UNRELEASED
from airflow_provider_ckpt.coordinator.parts import Parts


class CheckpointDecider:
    """Weighs the cycle of checkpoints against releases, a stop and the end of the job."""

    def __init__(self, parts: Parts, job: JobStatus) -> None:
        self._parts, self._job = parts, job

    def next_deadline(self) -> float | None:
        """The earliest time at which something is due without a message; None: nothing is."""
        stop = self._parts.requests.stop
        moments = [self._parts.cycle.expires, self._parts.releases.next_try]
        moments.append(stop.deadline if stop is not None and self._job.waits_for_savepoint else None)
        moments.append(self._trigger_at())
        return min((moment for moment in moments if moment is not None), default=None)

    def expire(self, now: float) -> None:
        expires = self._parts.cycle.expires
        if expires is not None and now >= expires:
            self.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED, now)
        stop = self._parts.requests.stop
        if stop is not None and self._job.waits_for_savepoint and now >= stop.deadline:
            self._parts.cycle.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED, now)
            cause = f"stopped without a savepoint: none within {self._parts.options.timeout:g} s"
            self._job.end("STOPPED", cause)

    def abort(self, reason: CheckpointFailureReason, now: float) -> None:
        """Abort the pending checkpoint; with more failures in a row than are tolerated, end the job."""
        cycle = self._parts.cycle
        cycle.abort(reason, now)
        # A stop is not turned into a restart: the savepoint is tried again until the stop's deadline.
        if cycle.failures.exceeded and self._parts.requests.stop is None:
            times, tolerable = cycle.failures.in_a_row, self._parts.options.tolerable_failed
            cause = f"{times} checkpoints failed in a row ({tolerable} tolerated), last: {reason.message}"
            self._job.end("RESTARTING", cause)

    def completed(self, completed: Completed | None) -> None:
        """What follows from a checkpoint that completed, if one did."""
        if completed is None:
            return
        self._parts.releases.completed(completed.checkpoint)
        self._parts.finals.completed(completed.checkpoint, completed.covered)
        stop = self._parts.requests.stop
        if completed.kind in ("savepoint", "final") and stop is not None:
            stop.savepoint = completed.checkpoint

    def trigger_if_due(self, now: float) -> None:
        due = self._trigger_at()
        if due is None or now < due:
            return
        if self._parts.subtasks.all_ended:
            kind = "final"
        else:
            kind = "savepoint" if self._job.waits_for_savepoint else "checkpoint"
        self._parts.cycle.trigger(kind, now)

    def _trigger_at(self) -> float | None:
        """Earliest time the next checkpoint can be triggered as things stand; None: it cannot."""
        parts, savepoint = self._parts, self._job.waits_for_savepoint
        if self._job.is_ending or parts.cycle.refusal() is not None:
            return None
        if parts.requests.stop is not None and not savepoint:
            return None
        if not savepoint and len(parts.releases) >= MAX_UNRELEASED:
            return None
        return parts.cycle.due(savepoint and parts.options.periodic)
