"""The consequence of a failed subtask: its next attempt, or the end of the run (Flink: ExecutionFailureHandler).

The module also restarts paused subtasks whose Spark log is too large. :mod:`~.state.replacement_state` explains why.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.checkpoint_decider import CheckpointDecider
from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.checkpoint_failures import CheckpointFailureReason
from airflow_provider_ckpt.coordinator.protocol.commands import RestartSubtask
from airflow_provider_ckpt.coordinator.protocol.effects import Append
from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.events import SubtaskRestarting
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus, RunEnd

MAX_DELAY = 60.0
"""Longest pause before a restart in seconds, unless the first pause (``delay``) is longer."""
MULTIPLIER = 1.5
"""Factor by which the pause before a restart grows with each failure."""
RESET_AFTER = 3600.0
"""Seconds without a failure after which the count of failures in a row begins at 0 again (FLIP-364)."""

_FREEING_SLOTS = (SubtaskStatus.STARTING, SubtaskStatus.RUNNING, SubtaskStatus.FINISHING)
"""Statuses of subtasks that end by themselves and then free a slot.

AT_END_OF_DATA is missing, because a subtask with a sink then waits for a checkpoint, which needs all subtasks.
"""


class Failover:
    """The reaction to failed subtasks and lost workers.

    Only the failed subtask restarts, because every edge is durable. The pending checkpoint is aborted and not counted.
    The other subtasks continue, and no checkpoint is taken until the failed subtask runs again (R15).

    The run ends if a retry cannot help, and after too many failures in a row. It also ends on any failure during a
    stop, but a failure during the stop of an upgrade first cancels the upgrade. The next run resumes from the released
    output.

    A lost worker does not count as a failure. The run ends if no other worker comes within the checkpoint timeout. In
    BATCH mode, the time runs only while no subtask runs. A subtask that ends may free a slot for the worker.
    """

    def __init__(
        self, state: CoordinatorState, job: JobLifecycle, decider: CheckpointDecider, *, has_workers: bool
    ) -> None:
        self._state, self._job, self._decider = state, job, decider
        self._strategy = RestartStrategy(state.options.restart_attempts, state.options.restart_delay)
        self._deadlines: dict[SubtaskId, float] = {}
        """Subtask → the time at which the run ends if the next attempt of the subtask has not begun."""
        self._without_worker: set[SubtaskId] = set()
        """The subtasks of ``_deadlines`` that have not failed. With workers, they wait for a worker."""
        self._may_lack_slots = has_workers and state.options.is_batch
        self._has_running = False

    def failed(self, message: SubtaskFailed, now: float) -> None:
        """Restart the failed subtask or end the run. The attempt is current, or a next attempt that could not begin."""
        state, subtask = self._state, message.subtask
        if not state.subtasks.admits(subtask, message.attempt):
            state.subtasks.begin(subtask, message.attempt)
        stop = state.requests.stop
        if stop is not None and stop.upgrade is not None:  # the job must continue even if the upgrade fails
            self._job.fail_stop(f"{subtask} failed meanwhile: {message.cause}", now)
        cannot_retry = message.terminal or message.driver_is_lost or message.result_is_lost
        may_restart = not (cannot_retry or self._job.is_ending or state.requests.stop is not None)
        restart = self._next_attempt(message, now) if may_restart else None
        if restart is None:
            self._end(message, now, is_exhausted=may_restart)
        else:
            self._restart(message, restart, now)

    def _next_attempt(self, message: SubtaskFailed, now: float) -> Restart | None:
        if message.worker_is_lost:
            return Restart(0, 0.0)
        return self._strategy.failed(message.subtask, now)

    def _end(self, message: SubtaskFailed, now: float, *, is_exhausted: bool) -> None:
        attempts = self._strategy.attempts
        times = f" (after {attempts} restarts in a row)" if is_exhausted and attempts else ""
        self._state.cycle.abort(CheckpointFailureReason.JOB_FAILURE, now)
        status: RunEnd = JobStatus.FAILED if message.terminal else JobStatus.RESTARTING
        self._job.end(status, f"{message.subtask}: {message.cause}{times}")

    def _restart(self, message: SubtaskFailed, restart: Restart, now: float) -> None:
        state, subtask = self._state, message.subtask
        self._decider.failed(CheckpointFailureReason.JOB_FAILOVER_REGION, now)
        state.subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
        state.finals.forget(subtask)
        event = SubtaskRestarting(
            subtask, str(message.attempt), message.cause, restart.number, self._strategy.attempts, restart.delay, now
        )
        state.out.append(Append(event))
        state.send(RestartSubtask(*state.task_id(subtask), restart.delay, state.pauses.plan(subtask)))
        self._deadlines[subtask] = now + restart.delay + state.options.timeout
        if message.worker_is_lost:
            self._without_worker.add(subtask)
        else:
            self._without_worker.discard(subtask)

    def restart_paused(self, now: float) -> None:
        """Request the next attempt of each subtask that has paused for a restart."""
        for subtask in self._state.replacements.take_paused():
            self.restart_unfailed(subtask, now)

    def restart_unfailed(self, subtask: SubtaskId, now: float) -> None:
        """Request the next attempt of a subtask that has not failed. No restart is counted."""
        state = self._state
        state.subtasks.set_status(subtask, SubtaskStatus.RESTARTING)
        state.send(RestartSubtask(*state.task_id(subtask), 0.0, state.pauses.plan(subtask)))
        self.expect_attempt(subtask, now)

    def expect_attempt(self, subtask: SubtaskId, now: float) -> None:
        """Start the timeout within which the next attempt of a subtask that has not failed must begin."""
        self._deadlines[subtask] = now + self._state.options.timeout
        self._without_worker.add(subtask)

    def opened(self, subtask: SubtaskId) -> None:
        """Cancel the timeout of the subtask, because its next attempt has begun."""
        self._deadlines.pop(subtask, None)
        self._without_worker.discard(subtask)

    def note_running(self) -> None:
        """Note whether any running subtask may free a slot when it ends. Call this at the end of a step."""
        subtasks = self._state.subtasks
        self._has_running = self._may_lack_slots and subtasks.count(*_FREEING_SLOTS) > 0

    def next_deadline(self) -> float | None:
        return None if self._job.is_ending else min(self._deadlines.values(), default=None)

    def expire(self, now: float) -> None:
        """End the run if a next attempt has not begun in time, for example because the storage does not answer."""
        timeout = self._state.options.timeout
        if self._has_running:  # the timeout starts when none runs
            self._deadlines.update(dict.fromkeys(self._without_worker, now + timeout))
        late = [subtask for subtask, deadline in self._deadlines.items() if now >= deadline]
        for subtask in late:
            del self._deadlines[subtask]
            alone = " in which no other subtask ran" if self._may_lack_slots and subtask in self._without_worker else ""
            self._without_worker.discard(subtask)
            cause = f"its next attempt has not begun within {timeout:g} s{alone} (the checkpoint timeout)"
            self._job.end(JobStatus.RESTARTING, f"{subtask}: {cause}")


@dataclass(frozen=True)
class _Failures:
    in_a_row: int
    delay: float
    at: float


@dataclass(frozen=True)
class Restart:
    """A restart of a subtask, ``delay`` seconds after its failure. It is the ``number``-th restart in a row."""

    number: int
    delay: float


class RestartStrategy:
    """Flink's exponential-delay strategy (RestartBackoffTimeStrategy), for each subtask separately.

    The pause grows with each failure, up to a minute (or ``delay``, if longer). After an hour without a failure, it is
    ``delay`` again. There is no jitter, because all subtasks are in one driver.

    Args:
        attempts: maximum number of restarts in a row; 0 for none.
        delay: the first pause in seconds.
    """

    def __init__(self, attempts: int, delay: float) -> None:
        self.attempts, self._delay = attempts, delay
        self._failures: dict[SubtaskId, _Failures] = {}

    def failed(self, subtask: SubtaskId, now: float) -> Restart | None:
        """Count a failure. Return the restart that follows; None after more than ``attempts`` failures in a row."""
        previous = self._failures.get(subtask)
        if previous is None or now - previous.at - previous.delay >= RESET_AFTER:
            failures = _Failures(1, self._delay, now)
        else:
            failures = _Failures(
                previous.in_a_row + 1, min(previous.delay * MULTIPLIER, max(MAX_DELAY, self._delay)), now
            )
        if failures.in_a_row > self.attempts:
            return None
        self._failures[subtask] = failures
        return Restart(failures.in_a_row, failures.delay)
