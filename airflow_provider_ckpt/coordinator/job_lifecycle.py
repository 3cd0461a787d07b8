"""The status of the job from CREATED to its end, and the outcomes of stop and drain requests."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.protocol.effects import Append, EndJob
from airflow_provider_ckpt.coordinator.state.request_state import Stop
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus, RunEnd
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.words import counted


@dataclass(frozen=True)
class _Ending:
    """The decided end of the job. The job ends when every completed checkpoint is released.

    Attributes:
        at_once: True if the end does not wait for sinks whose releases fail, because such a sink is the cause.
        upgrade: name of the upgrade request for which the job then resumes at once, or None.
    """

    status: RunEnd
    cause: str | None
    at_once: bool = False
    upgrade: str | None = None


class JobLifecycle:
    """The status of the job. It is CREATED until every unfinished subtask runs (BATCH: one subtask), then RUNNING.

    The status remains RUNNING until the end is decided and every completed checkpoint is released (R16).

    STOPPED means that the savepoint of a stop is completed and released, apart from the output that gates hold. At the
    end of data, the last checkpoint takes the place of the savepoint. After a failed stop the job continues, or ends as
    RESTARTING if the stop has ``exit_if_it_fails``. After the savepoint of an upgrade no
    status is written, because the job resumes at once.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._ending: _Ending | None = None
        self.status = JobStatus.CREATED
        self.is_over = False

    @property
    def is_ending(self) -> bool:
        """Return whether the end of the job is decided, so that nothing new may begin."""
        return self._ending is not None

    @property
    def is_being_ended(self) -> bool:
        """Return whether the end of the job is decided or requested, so that no change of the job may begin."""
        requests = self._state.requests
        return self.is_ending or requests.stop is not None or requests.draining

    @property
    def work_is_done(self) -> bool:
        """Return whether all subtasks are at their ends of data and completed checkpoints cover these ends."""
        return self._state.subtasks.all_ended and not self._state.cycle.is_wanted

    @property
    def waits_for_savepoint(self) -> bool:
        stop = self._state.requests.stop
        if stop is None or stop.savepoint is not None or self.is_ending:
            return False
        return not self.work_is_done

    def note_running(self, now: float) -> None:
        state = self._state
        if self.status is not JobStatus.CREATED or self.is_ending or not state.subtasks.some_active:
            return
        if not state.subtasks.blocked or state.options.is_batch:
            self.status = JobStatus.RUNNING
            state.out.append(Append(StatusChanged(JobStatus.RUNNING, now)))
            state.cycle.start_interval(now)

    # -- the end

    def end(self, status: RunEnd, cause: str | None, at_once: bool = False) -> None:
        """Set how the job ends. The first call counts. Only a first call with ``at_once=True`` may replace it."""
        if self._ending is not None and not (at_once and not self._ending.at_once):
            return
        if cause is not None:
            cause = self._full_cause(cause)
        self._ending = _Ending(status, cause, at_once)

    def fail_stop(self, cause: str, now: float) -> None:
        """Fail the stop in progress. The job continues, or ends as RESTARTING if the stop has ``exit_if_it_fails``."""
        requests = self._state.requests
        if requests.stop is not None and requests.stop.exit_if_it_fails:
            self.end(JobStatus.RESTARTING, cause)
            return
        why = f"{self._full_cause(cause)}; the job continues"
        requests.stop = None
        self._answer("stop", RequestOutcome.failed(why), now)
        self._answer(UpgradeRequest.kind, RequestOutcome.failed(why), now)

    def end_if_done(self, now: float) -> None:
        """Decide whether the job has finished or stopped, and end the job when no release delays the end."""
        self._decide()
        ending = self._ending
        if ending is None or self.is_over or self._waits_for_releases(ending):
            return
        self.is_over = True
        self.status = ending.status
        if ending.upgrade is not None:  # no status: readers of the journal would believe that the job is over
            self._state.out.append(EndJob(ending.status, None, ending.upgrade))
            return
        self._answer_all(ending, now)
        self._state.out.append(Append(StatusChanged(ending.status, now, ending.cause)))
        self._state.out.append(EndJob(ending.status, ending.cause))

    def _waits_for_releases(self, ending: _Ending) -> bool:
        # the next driver releases anyway, so a failed run need not try an unreachable sink for minutes first
        lenient = ending.at_once or ending.status is JobStatus.RESTARTING
        return self._state.releases.has_outstanding(for_failing=not lenient)

    def _decide(self) -> None:
        state = self._state
        if state.cycle.pending is not None or state.releases.has_outstanding(for_failing=True):
            return
        stop = state.requests.stop
        if state.subtasks.all_finished:
            self._end_finished()
        elif stop is not None and stop.savepoint is not None and not self.work_is_done:
            self._end_stopped(stop)
        elif stop is not None and self.work_is_done and state.releases.closed_gates:
            # a savepoint is not needed, and a stop never waits for gates, not even at the end of data
            self._end_stopped(stop)

    def _end_stopped(self, stop: Stop) -> None:
        if stop.upgrade is None:
            self.end(JobStatus.STOPPED, None)
        elif self._ending is None:
            self._ending = _Ending(JobStatus.RESTARTING, None, upgrade=stop.upgrade)

    def _end_finished(self) -> None:
        """End the job as FINISHED, or as FAILED if splits were not read, because no later run would read them."""
        unread = ", ".join(
            f"{counted(count, 'split')} of {uid}" for uid, count in self._state.splits.all_unread.items()
        )
        if unread:
            cause = f"every subtask has ended, but none has read {unread}: an error of this package, please report it"
            self.end(JobStatus.FAILED, cause)
        else:
            self.end(JobStatus.FINISHED, None)

    # -- answers and causes

    @property
    def _last_completed(self) -> int | str:
        return self._state.cycle.last_completed or "none"

    def _full_cause(self, cause: str) -> str:
        return f"{self._stop_prefix()}{cause.rstrip('.')}; last completed checkpoint: {self._last_completed}"

    def _stop_prefix(self) -> str:
        """Return the beginning of a cause: how the failure affects the stop in progress; "" without a stop."""
        stop = self._state.requests.stop
        if stop is None:
            return ""
        if stop.upgrade is not None:
            return "the upgrade did not take place: "
        if stop.savepoint is None:
            return "the stop did not take place: "
        return f"savepoint {stop.savepoint} was taken, but the job failed before it had stopped: "

    def _answer_all(self, ending: _Ending, now: float) -> None:
        """Answer every open request before the final status is written, because no answer can follow it."""
        stop = self._state.requests.stop
        change = self._state.reconfiguration.current
        consequence = (
            "later runs apply it" if change is not None and change.decided is not None else "it did not take place"
        )
        self._answer("reconfigure", RequestOutcome.failed(f"the job became {ending.status} first; {consequence}"), now)
        if ending.status is JobStatus.FINISHED:
            self._answer("stop", RequestOutcome.completed("the job has FINISHED"), now)
            self._answer("drain", RequestOutcome.completed("the job has FINISHED"), now)
        elif ending.status is JobStatus.STOPPED and stop is not None:
            whole = f"checkpoint {self._last_completed}, which covers all data,"
            taken = whole if stop.savepoint is None else f"savepoint {stop.savepoint}"
            self._answer("stop", RequestOutcome.completed(f"{taken} is released{self._held_output()}"), now)
            self._answer("drain", RequestOutcome.failed("the job was stopped before it was drained"), now)
        else:
            self._answer("stop", RequestOutcome.failed(f"{ending.cause}"), now)
            resumes = "; the next run continues the drain" if ending.status is JobStatus.RESTARTING else ""
            self._answer("drain", RequestOutcome.failed(f"{ending.cause}{resumes}"), now)
        self._answer(None, RequestOutcome.failed(f"the job became {ending.status} first"), now)

    def _held_output(self) -> str:
        sinks = self._state.releases.closed_gates
        return f"; output that the gates of {', '.join(sinks)} hold stays staged for a later run" if sinks else ""

    def _answer(self, kind: str | None, outcome: RequestOutcome, now: float) -> None:
        """Answer the open requests of one kind, or of every kind if ``kind`` is None."""
        for request, its_kind in self._state.requests.close(kind):
            self._state.answer(request, its_kind, outcome, now)
