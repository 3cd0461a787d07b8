"""The execution of an upgrade: the running job resumes as another version, in the same driver.

An upgrade can add and remove operators. The whole job pauses for it. The steps (R21):

1. *try*: while the job runs, the version is loaded, planned and compared with the job in the journal. Its queries are
   started on copies. If anything is wrong, the request fails and nothing has changed.
2. *stop*: a savepoint is taken and released. If the savepoint fails, the job continues unchanged.
3. The JobMaster exits without writing a final status. The same process claims the next epoch for the new version.
   The new version resumes like any later run of the job, and answers the request when the job is RUNNING.

In Flink the equivalent is a stop with a savepoint and a submission of the new program. The Kubernetes operator calls
this upgrade mode ``savepoint``.
"""

from __future__ import annotations

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.effects import TryUpgrade
from airflow_provider_ckpt.coordinator.protocol.messages import UpgradeTried
from airflow_provider_ckpt.coordinator.state.request_state import in_progress
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult


class Upgrader:
    def __init__(self, state: CoordinatorState, job: JobLifecycle) -> None:
        self._state, self._job = state, job
        self._deadline = 0.0
        """Time at which the request fails if the trial of the new version is not over."""

    def requested(self, request: UpgradeRequest, now: float) -> None:
        requests, timeout = self._state.requests, self._state.options.timeout
        if (why := self._refusal()) is not None:
            self._state.answer(request.name, request.kind, RequestOutcome.refused(why), now)
            return
        requests.trying, self._deadline = request.name, now + timeout
        requests.note(request.name, request.kind)
        self._state.answer(request.name, request.kind, RequestOutcome(RequestResult.ACCEPTED), now)
        self._state.out.append(TryUpgrade(request))

    def tried(self, message: UpgradeTried, now: float) -> None:
        requests = self._state.requests
        if message.problem is not None:
            self._end_trial(RequestOutcome.failed(f"{message.problem}; the job continues unchanged"), now)
        elif (why := self._abort_reason()) is not None:
            self._end_trial(RequestOutcome.failed(why), now)
        else:
            requests.trying = None
            requests.stop_for(message.request, now + self._state.options.timeout)

    def next_deadline(self) -> float | None:
        requests = self._state.requests
        if requests.trying is not None:
            return self._deadline
        if self._job.is_ending or requests.stop is None or requests.stop.upgrade is None:
            return None
        return requests.stop.deadline

    def advance(self, now: float) -> None:
        requests, timeout = self._state.requests, self._state.options.timeout
        if requests.trying is not None:
            why = self._abort_reason()
            if why is None and now >= self._deadline:
                why = f"it was not loaded and tried within {timeout:g} s; the job continues unchanged"
            if why is not None:
                self._end_trial(RequestOutcome.failed(why), now)
            return
        deadline = self.next_deadline()
        if requests.stop is not None and deadline is not None and now >= deadline:
            # no checkpoint is taken during the stop, and a job that continues needs checkpoints
            self._job.fail_stop(f"savepoint {requests.stop.savepoint} is not released within {timeout:g} s", now)

    # -- helpers

    def _refusal(self) -> str | None:
        """Return why an upgrade is refused now; None if it is accepted."""
        state, requests = self._state, self._state.requests
        if state.options.is_batch:
            return "a job in batch mode takes no savepoint before its end"
        if requests.upgrade is not None:
            return in_progress(requests.upgrade)
        if (why := self._abort_reason()) is not None:
            return why
        if state.reconfiguration.current is not None:
            return str(state.reconfiguration.current)
        if self._job.work_is_done:
            return "the job is at its end, so no version of it has work left"
        return None if self._job.status is JobStatus.RUNNING else "the job does not run yet; ask again"

    def _abort_reason(self) -> str | None:
        return "the job is being ended" if self._job.is_being_ended else None

    def _end_trial(self, outcome: RequestOutcome, now: float) -> None:
        request = self._state.requests.trying
        self._state.requests.trying = None
        self._state.requests.close_request(request)
        self._state.answer(request, UpgradeRequest.kind, outcome, now)
