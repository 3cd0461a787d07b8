"""Airflow tasks that send a request to a running job: stop, drain, rescale, reconfigure or upgrade."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt.client.job_facts import short_result
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.rendered import check_given_job_id, given_arguments, is_rendered_later, refuse_lost
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.run_options import Duration, parse_duration
from airflow_provider_ckpt.job.options.units import whole_number
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration, as_numbers
from airflow_provider_ckpt.model.job_request import DrainRequest, StopRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.setting_ranges import LARGEST_NUMBER, problem_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.client.job_answer import JobAnswer
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.model.job_request import JobRequest


PAUSE = 2.0
"""Seconds until the task repeats a request that the driver refused because another change was in progress."""
_SETTINGS = "give each operator a mapping of its settings by name"


class JobRequestOperator(BaseOperator):
    """Base of the operators that send a request. A retry sends a new request, and the driver answers both requests."""

    kind: ClassVar[str]
    already: ClassVar[tuple[JobStatus, ...]] = ()
    """Statuses of a job that needs no request."""
    template_fields: Sequence[str] = ("job_id", "ckpt_conn_id", "root")
    ui_color = "#e2d4f0"

    def __init__(
        self,
        *,
        job_id: str,
        wait: bool = True,
        timeout: Duration = 600.0,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_given_job_id(job_id)
        self.job_id = job_id
        self.wait = kinds.FLAG.read(wait, "wait")
        self.timeout = parse_duration(timeout, "timeout")
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self._given = given_arguments(self, ("job_id", "root"))

    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_failures():
            refuse_lost(self, self._given)
            client = CheckpointHook(self.ckpt_conn_id, root=self.root).client(self.job_id)
            state = client.state()
            if state.status in self.already or self._is_needless(client):
                self.log.info("Job %s is %s: there is nothing to ask", self.job_id, state.status)
                return short_result(state)
            request = self._send(client)
            self._log_request(request)
            return self._await_answer(client, request) if self.wait else short_result(state)

    def _log_request(self, request: JobRequest) -> None:
        self.log.info(
            "Asked epoch %s of job %s to %s (request %s)", request.epoch, self.job_id, self.kind, request.name
        )

    def _is_needless(self, client: JobClient) -> bool:
        """Return True if the job already is as requested, whatever its status."""
        return False

    def _send(self, client: JobClient) -> JobRequest:
        raise NotImplementedError

    def _await_answer(self, client: JobClient, request: JobRequest) -> dict[str, Any]:
        answer = self._answer(client, request)
        if answer.is_served:
            self.log.info("Job %s: %s %s", self.job_id, self.kind, answer.outcome or answer.state.status)
            return short_result(answer.state)
        outcome = answer.outcome or f"its driver ended the job {answer.state.status} without an answer"
        raise AirflowException(f"Job {self.job_id}: {self.kind} {outcome}")

    def _answer(self, client: JobClient, request: JobRequest) -> JobAnswer:
        return client.answer(request, self.timeout)


class CheckpointedJobStopOperator(JobRequestOperator):
    """Ask the driver of a job to stop, and wait until a savepoint is taken and released.

    No source is finished, and the job's next run resumes from the savepoint. The task succeeds at once for a job that
    is STOPPED or FINISHED. It fails and may be retried if the job did not stop or if ``timeout`` has passed. It fails
    for good if there is no such job, or if no driver has the job.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job; ``{{ ti.xcom_pull('orders')['job_id'] }}``, or the id given to it. (templated)
    :param wait: False to only send the request, and return the status before the stop.
    :param timeout: how long to wait for the job's end, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    kind = "stop"
    already = StopRequest.done_in

    def _send(self, client: JobClient) -> JobRequest:
        return client.stop()


class CheckpointedJobDrainOperator(JobRequestOperator):
    """Ask the driver of a job to drain, and wait until the job is FINISHED.

    A drain reads, processes and releases the data that every source has at the request, and ends the job for good. The
    task succeeds at once for a FINISHED job and refuses a STOPPED job, whose data was not drained. Otherwise it behaves
    like :class:`CheckpointedJobStopOperator`.

    :param job_id: the job. (templated)
    :param at_once: True to end live sources at their current positions. The driver logs how much data is unread.
    :param discard_timers: True to discard the timers of processing time for which the job's state waits. By default the
        task fails for such a job.
    :param wait: False to only send the request, and return the status before the drain.
    :param timeout: how long to wait for the job's end, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    kind = "drain"
    already = DrainRequest.done_in

    def __init__(self, *, at_once: bool = False, discard_timers: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at_once = kinds.FLAG.read(at_once, "at_once")
        self.discard_timers = kinds.FLAG.read(discard_timers, "discard_timers")

    def _send(self, client: JobClient) -> JobRequest:
        return client.drain(at_once=self.at_once, discard_timers=self.discard_timers)


class JobChangeOperator(JobRequestOperator):
    """Base of the operators that change a running job.

    A job applies one change at a time. If another change is in progress, the task waits for it and then sends its own
    request again.
    """

    def _answer(self, client: JobClient, request: JobRequest) -> JobAnswer:
        deadline = time.monotonic() + self.timeout
        while True:
            answer = client.answer(request, max(0.0, deadline - time.monotonic()))
            must_wait = answer.outcome is not None and answer.outcome.is_blocked_by_change
            if not must_wait or time.monotonic() + PAUSE >= deadline:
                return answer
            self.log.info("Job %s: %s %s; waiting for that", self.job_id, self.kind, answer.outcome)
            for other in client.changes_in_progress():
                with suppress(CkptError):  # the task that requested the other change reports the failure
                    client.answer(other, max(0.0, deadline - PAUSE - time.monotonic()))
            time.sleep(PAUSE)  # a controller's change has no request to wait for
            request = self._send(client)
            self._log_request(request)


class CheckpointedJobRescaleOperator(JobChangeOperator):
    """Change the number of subtasks that read a source with splits, while the job runs. Wait until the change applies.

    The task fails and may be retried if the driver refuses (all splits are assigned) or if ``timeout`` has passed. It
    fails for good if there is no such job or source, or no driver has the job.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param source: uid of the source. (templated)
    :param parallelism: number of subtasks that must read the remaining splits, as a number or as text. (templated)
    :param wait: False to send the request without waiting.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    kind = "rescale"
    template_fields: Sequence[str] = (*JobRequestOperator.template_fields, "source", "parallelism")

    def __init__(self, *, source: str, parallelism: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.parallelism = parallelism
        if not is_rendered_later(parallelism):
            self._number()

    def _number(self) -> int:
        """Return ``parallelism`` as a number. Raises InvalidTaskArgumentError if it is no number or out of range."""
        number = whole_number(str(self.parallelism))
        if number is None or isinstance(self.parallelism, bool) or problem_of("parallelism", number):
            problem = f"give a whole number from 1 to {LARGEST_NUMBER}, or a text of one"
            raise InvalidTaskArgumentError(argument="parallelism", value=self.parallelism, problem=problem)
        return number

    def _send(self, client: JobClient) -> JobRequest:
        return client.rescale(self.source, self._number())


class CheckpointedJobReconfigureOperator(JobChangeOperator):
    """Change queries of a running job, and wait until they run with the change.

    A change sets other limits, repartitions the state, or assigns another share of the cluster or other functions. Only
    the named queries pause for a moment.

    The task fails and may be retried if the driver refuses the change, if the change does not fit, or if ``timeout``
    has passed. The job then continues unchanged. The task fails for good if there is no such job or operator, or no
    driver has the job. It sends no request if the change is already in effect.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param assign_workload: operator -> arguments of :meth:`Reconfiguration.assign_workload`. (templated)
    :param assign_resources: operator -> arguments of :meth:`Reconfiguration.assign_resources`. (templated)
    :param assign_execution_logic: operator -> the reference of a job, for
        :meth:`Reconfiguration.assign_execution_logic`. The driver reads the file, so its path must be valid where the
        driver runs. (templated)
    :param wait: False to send the request without waiting.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    kind = "reconfigure"
    template_fields: Sequence[str] = (
        *JobRequestOperator.template_fields,
        "assign_workload",
        "assign_resources",
        "assign_execution_logic",
    )

    def __init__(
        self,
        *,
        assign_workload: Mapping[str, Mapping[str, Any]] | None = None,
        assign_resources: Mapping[str, Mapping[str, Any]] | None = None,
        assign_execution_logic: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.assign_workload = assign_workload or {}
        self.assign_resources = assign_resources or {}
        self.assign_execution_logic = assign_execution_logic or {}
        if not any(map(is_rendered_later, (self.assign_workload, self.assign_resources, self.assign_execution_logic))):
            self._change()

    def _change(self) -> Reconfiguration:
        """Return the change that the arguments describe. Raises a subclass of InvalidInputError for a bad argument."""
        change = Reconfiguration()
        for uid, arguments in self._by_operator("assign_workload").items():
            change.assign_workload(uid, **as_numbers(_mapping("assign_workload", arguments, _SETTINGS)))
        for uid, arguments in self._by_operator("assign_resources").items():
            change.assign_resources(uid, **as_numbers(_mapping("assign_resources", arguments, _SETTINGS)))
        for uid, reference in self._by_operator("assign_execution_logic").items():
            change.assign_execution_logic(uid, reference)
        if not change.changes:
            problem = "no change is given"
            raise InvalidTaskArgumentError(argument="assign_workload", value=self.assign_workload, problem=problem)
        return change

    def _by_operator(self, argument: str) -> Mapping[str, Any]:
        """Return an argument that must be a mapping. Refuse the text that a non-native Dag renders."""
        return _mapping(argument, getattr(self, argument), "give a mapping of operators")

    def _is_needless(self, client: JobClient) -> bool:
        """Return True if the job runs with the change already, for example after an earlier try that timed out.

        Return False for a change that names a file, because the file may have changed, which only the driver can check.
        """
        change = self._change()
        names_file = any(settings.names_file for settings in change.changes.values())
        return not names_file and client.runs_with(change)

    def _send(self, client: JobClient) -> JobRequest:
        return client.reconfigure(self._change())


class CheckpointedJobUpgradeOperator(JobChangeOperator):
    """Replace a running job by another version of it, and wait until that version runs.

    Operators may be added and removed, as between two runs. The whole job pauses for a moment, at a savepoint. Its
    driver, and the task that runs the driver, continue.

    The task fails and may be retried if the driver refuses the version, if the version does not fit (the job then
    continues unchanged), or if ``timeout`` has passed. It fails for good if there is no such job, or no driver has the
    job.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param job: reference of the version, a file or module where the driver runs. None means the job's current
        reference, which is read again. Give the task that runs the job the same reference, for its later runs.
        (templated)
    :param allow_non_restored_state: True to allow a version without some of the job's operators.
    :param wait: False to send the request without waiting.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    kind = "upgrade"
    template_fields: Sequence[str] = (*JobRequestOperator.template_fields, "job")

    def __init__(self, *, job: str | None = None, allow_non_restored_state: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.allow_non_restored_state = kinds.FLAG.read(allow_non_restored_state, "allow_non_restored_state")

    def _send(self, client: JobClient) -> JobRequest:
        return client.upgrade(self.job, allow_non_restored_state=self.allow_non_restored_state)


def _mapping(argument: str, value: object, problem: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
    return value
