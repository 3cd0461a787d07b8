"""The decisions about checkpoints: when the next checkpoint is triggered, and how a failure affects the job."""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.checkpoints.checkpoint_cycle import Completed
from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import MAX_UNRELEASED
from airflow_provider_ckpt.model.checkpoint_view import CheckpointKind
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import counted


class CheckpointDecider:
    """The rules that trigger checkpoints, let them expire, and end the run after too many failures."""

    def __init__(self, state: CoordinatorState, job: JobLifecycle) -> None:
        self._state, self._job = state, job

    def next_deadline(self) -> float | None:
        """Return the earliest time of a trigger, a timeout or the retry of a release; None if there is none."""
        stop = self._state.requests.stop
        moments = [self._state.cycle.expires, self._state.releases.next_try]
        moments.append(stop.deadline if stop is not None and self._job.waits_for_savepoint else None)
        moments.append(self.trigger_at())
        return min((moment for moment in moments if moment is not None), default=None)

    def expire(self, now: float) -> None:
        stop = self._state.requests.stop
        if stop is not None and self._job.waits_for_savepoint and now >= stop.deadline:
            self._state.cycle.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED, now, for_stop=True)
            self._job.fail_stop(f"no savepoint within {self._state.options.timeout:g} s{self._refusal_text()}", now)
        expires = self._state.cycle.expires
        if expires is not None and now >= expires:
            self.failed(CheckpointFailureReason.CHECKPOINT_EXPIRED, now)

    def _refusal_text(self) -> str:
        """Return why no checkpoint can be triggered, and which subtasks prevent it; "" if there is no reason."""
        refusal, waiting = self._state.cycle.refusal(), self._state.subtasks.blocking
        names = f" ({', '.join(waiting)})" if waiting else ""
        return "" if refusal is None else f": {refusal.message}{names}"

    def failed(self, reason: CheckpointFailureReason, now: float, detail: str = "") -> None:
        """Abort the pending checkpoint and count its failure.

        The run ends if more checkpoints in a row have failed than are tolerated. If too many savepoints of a stop fail,
        the stop fails, as in Flink.
        """
        cycle, stop = self._state.cycle, self._state.requests.stop
        aborted = cycle.abort(reason, now)
        last = f"{reason.message}: {detail}" if detail else reason.message
        tolerable = f"({self._state.options.tolerable_failed} tolerated)"
        if aborted is not None and aborted.kind == "savepoint" and stop is not None:
            stop.failures.failed(aborted.checkpoint, reason)
            if stop.failures.exceeded:
                self._job.fail_stop(
                    f"{counted(stop.failures.in_a_row, 'savepoint')} failed {tolerable}, last: {last}", now
                )
        elif cycle.failures.exceeded:
            cause = f"{counted(cycle.failures.in_a_row, 'checkpoint')} failed in a row {tolerable}, last: {last}"
            self._job.end(JobStatus.RESTARTING, cause)

    def completed(self, completed: Completed | None) -> None:
        """Record a completed checkpoint for the releases, the final checkpoints and the stop. Do nothing for None."""
        if completed is None:
            return
        self._state.releases.completed(completed.checkpoint)
        self._state.finals.completed(completed.checkpoint, completed.covered)
        stop = self._state.requests.stop
        if completed.kind in ("savepoint", "final") and stop is not None:
            stop.savepoint = completed.checkpoint

    def trigger_if_due(self, now: float) -> None:
        due = self.trigger_at()
        if due is None or now < due:
            return
        if self._state.subtasks.all_ended:
            kind: CheckpointKind = "final"
        else:
            kind = "savepoint" if self._job.waits_for_savepoint else "checkpoint"
        self._state.cycle.trigger(kind, now)

    def trigger_at(self) -> float | None:
        """Return the earliest time of the next trigger, or None if the current state allows no checkpoint."""
        state, savepoint = self._state, self._job.waits_for_savepoint
        if self._job.is_ending or state.cycle.refusal() is not None:
            return None
        if state.requests.stop is not None and not savepoint:
            return None
        if not savepoint and state.releases.backlog >= MAX_UNRELEASED:
            return None
        return state.cycle.due(savepoint and not state.options.is_batch)
