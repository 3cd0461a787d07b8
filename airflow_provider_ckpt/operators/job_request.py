"""Ask something of a running job, as a task: to end before a deployment or when its feed is to be closed, to read
faster at night, to go on with other functions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt.client.job_request import NEEDLESS
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.failures import airflow_failures
from airflow_provider_ckpt.hooks.rendered import check_given_job_id, given_arguments, is_rendered_later, refuse_lost
from airflow_provider_ckpt.job import kinds
from airflow_provider_ckpt.job.options import Duration, parse_duration
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration, as_numbers
from airflow_provider_ckpt.job.units import whole_number
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.setting_ranges import LARGEST_NUMBER, problem_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.client.job_request import JobAnswer, JobRequest
    from airflow_provider_ckpt.journal.state import JobState


PAUSE = 2.0
"""Seconds from a refusal, because another change is under way, to the next time of asking."""
_SETTINGS = "give each operator a mapping of its settings by name"


class JobRequestOperator(BaseOperator):
    """What the requests have in common. A retry asks again; the driver answers both."""

    kind: ClassVar[str]
    already: ClassVar[tuple[JobStatus, ...]]
    """The status of a job of which nothing needs to be asked."""
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
                return _result(state)
            asked = self._ask(client)
            self._tell(asked)
            return self._awaited(client, asked) if self.wait else _result(state)

    def _tell(self, asked: JobRequest) -> None:
        self.log.info("Asked epoch %s of job %s to %s (request %s)", asked.epoch, self.job_id, self.kind, asked.name)

    def _is_needless(self, client: JobClient) -> bool:
        """Whether the job is as it is to be, whatever its status."""
        return False

    def _ask(self, client: JobClient) -> JobRequest:
        raise NotImplementedError

    def _awaited(self, client: JobClient, asked: JobRequest) -> dict[str, Any]:
        answer = self._answer(client, asked)
        if answer.is_served:
            self.log.info("Job %s: %s %s", self.job_id, self.kind, answer.outcome or answer.state.status)
            return _result(answer.state)
        told = answer.outcome or f"its driver ended it {answer.state.status} and said nothing"
        raise AirflowException(f"Job {self.job_id}: {self.kind} {told}")

    def _answer(self, client: JobClient, asked: JobRequest) -> JobAnswer:
        return client.answer(asked, self.timeout)


class CheckpointedJobStopOperator(JobRequestOperator):
    """Ask the driver of a job to stop, and wait until it has: a savepoint is taken and released, no source is
    finished, and the job's next run goes on from there.

    Succeeds at once for a job that is STOPPED or FINISHED. Fails, and may be retried, when the stop did not take place
    (the job then goes on) or when ``timeout`` is over; fails for good when there is no such job, or no driver has it.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job; ``{{ ti.xcom_pull('orders')['job_id'] }}``, or the id given to it. (templated)
    :param wait: False: ask, and do not wait; the status returned is that of before.
    :param timeout: how long to wait for the job's end, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    """

    kind = "stop"
    already = NEEDLESS["stop"]

    def _ask(self, client: JobClient) -> JobRequest:
        return client.stop()


class CheckpointedJobDrainOperator(JobRequestOperator):
    """Ask the driver of a job to drain, and wait until it has: what every source has by then is read, what is in flight
    is processed and released, and the job is FINISHED for good.

    Succeeds at once for a job that is FINISHED; a STOPPED one has not been drained, and is refused. Everything else is
    as of :class:`CheckpointedJobStopOperator`.

    :param job_id: the job. (templated)
    :param at_once: live sources end where they stand. The driver's log says what waits in them and is not read.
    :param discard_timers: also if state waits for timers of processing time, which a drain discards. Without it the
        task fails.
    :param wait: False: ask, and do not wait; the status returned is that of before.
    :param timeout: how long to wait for the job's end, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    """

    kind = "drain"
    already = NEEDLESS["drain"]

    def __init__(self, *, at_once: bool = False, discard_timers: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at_once = kinds.FLAG.read(at_once, "at_once")
        self.discard_timers = kinds.FLAG.read(discard_timers, "discard_timers")

    def _ask(self, client: JobClient) -> JobRequest:
        return client.drain(at_once=self.at_once, discard_timers=self.discard_timers)


class JobChangeOperator(JobRequestOperator):
    """One change at a time: what a try before this one has asked for may be under way, or what another task has. It is
    waited for, and asked again behind it: what is so by then needs no change."""

    def _answer(self, client: JobClient, asked: JobRequest) -> JobAnswer:
        until = time.monotonic() + self.timeout
        while True:
            answer = client.answer(asked, max(0.0, until - time.monotonic()))
            is_behind = answer.outcome is not None and answer.outcome.is_behind_another
            if not is_behind or time.monotonic() + PAUSE >= until:
                return answer
            self.log.info("Job %s: %s %s; waiting for that", self.job_id, self.kind, answer.outcome)
            for other in client.changes_in_progress():
                with suppress(CkptError):  # what becomes of that is told to who has asked for it
                    client.answer(other, max(0.0, until - PAUSE - time.monotonic()))
            time.sleep(PAUSE)  # a controller's is no request
            asked = self._ask(client)
            self._tell(asked)


class CheckpointedJobRescaleOperator(JobChangeOperator):
    """Have another number of subtasks read a source with splits, while the job runs, and wait until they do.

    Fails, and may be retried, when the driver refuses it (the splits are all handed out)
    or when ``timeout`` is over; fails for good when there is no such job or source, or no driver has the job.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param source: uid of the source. (templated)
    :param parallelism: how many subtasks are to read what is left: a number, or a text of one. (templated)
    :param wait: False: ask, and do not wait.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    """

    kind = "rescale"
    already = ()
    template_fields: Sequence[str] = (*JobRequestOperator.template_fields, "source", "parallelism")

    def __init__(self, *, source: str, parallelism: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.parallelism = parallelism
        if not is_rendered_later(parallelism):
            self._number()

    def _number(self) -> int:
        """Raises InvalidTaskArgumentError."""
        number = whole_number(str(self.parallelism))
        if number is None or isinstance(self.parallelism, bool) or problem_of("parallelism", number):
            problem = f"give a whole number from 1 to {LARGEST_NUMBER}, or a text of one"
            raise InvalidTaskArgumentError(argument="parallelism", value=self.parallelism, problem=problem)
        return number

    def _ask(self, client: JobClient) -> JobRequest:
        return client.rescale(self.source, self._number())


class CheckpointedJobReconfigureOperator(JobChangeOperator):
    """Have queries of a running job take other limits, another cut of their state, another share of the cluster or
    other functions, and wait until they run so. Only the queries that are named stand still for it, for a moment.

    Fails, and may be retried, when the driver refuses it or it does not fit (the job then goes on as it was), or when
    ``timeout`` is over; fails for good when there is no such job or operator, or no driver has the job. Of a job that
    runs so already nothing is asked.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param assign_workload: operator -> arguments of :meth:`Reconfiguration.assign_workload`. (templated)
    :param assign_resources: operator -> arguments of :meth:`Reconfiguration.assign_resources`. (templated)
    :param assign_execution_logic: operator -> the reference of a job, for
        :meth:`Reconfiguration.assign_execution_logic`; the path is the driver's. (templated)
    :param wait: False: ask, and do not wait.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    """

    kind = "reconfigure"
    already = ()
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
        """Raises InvalidTaskArgumentError, and what :class:`Reconfiguration` raises."""
        change = Reconfiguration()
        for uid, given in self._by_operator("assign_workload").items():
            change.assign_workload(uid, **as_numbers(_mapping("assign_workload", given, _SETTINGS)))
        for uid, given in self._by_operator("assign_resources").items():
            change.assign_resources(uid, **as_numbers(_mapping("assign_resources", given, _SETTINGS)))
        for uid, reference in self._by_operator("assign_execution_logic").items():
            change.assign_execution_logic(uid, reference)
        if not change.changes:
            problem = "nothing is given that is to be changed"
            raise InvalidTaskArgumentError(argument="assign_workload", value=self.assign_workload, problem=problem)
        return change

    def _by_operator(self, argument: str) -> Mapping[str, Any]:
        """A template that is not native makes a text of a mapping."""
        return _mapping(argument, getattr(self, argument), "give a mapping of operators")

    def _is_needless(self, client: JobClient) -> bool:
        """A retry of one that was answered too late finds it done. What a file of the same name has in it by now, the
        driver has to say."""
        change = self._change()
        names_file = any(one.names_file for one in change.changes.values())
        return not names_file and client.runs_with(change)

    def _ask(self, client: JobClient) -> JobRequest:
        return client.reconfigure(self._change())


class CheckpointedJobUpgradeOperator(JobChangeOperator):
    """Have a running job go on as another version of it, and wait until it does: operators come and go, as between two
    runs. The whole job stands still for a moment, at a savepoint; its driver, and the task that runs it, go on.

    Fails, and may be retried, when the driver refuses it or it does not fit (the job then goes on as it was), or when
    ``timeout`` is over; fails for good when there is no such job, or no driver has it.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job. (templated)
    :param job: reference of the version, a file or module where the driver runs; None: the one that it runs, read anew.
        Have the task that runs the job name the same one: a later run goes by that. (templated)
    :param allow_non_restored_state: also without operators that the job has.
    :param wait: False: ask, and do not wait.
    :param timeout: how long to wait, in seconds or as text ("10m").
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    """

    kind = "upgrade"
    already = ()
    template_fields: Sequence[str] = (*JobRequestOperator.template_fields, "job")

    def __init__(self, *, job: str | None = None, allow_non_restored_state: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.allow_non_restored_state = kinds.FLAG.read(allow_non_restored_state, "allow_non_restored_state")

    def _ask(self, client: JobClient) -> JobRequest:
        return client.upgrade(self.job, allow_non_restored_state=self.allow_non_restored_state)


def _mapping(argument: str, value: object, problem: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
    return value


def _result(state: JobState) -> dict[str, Any]:
    return {
        "job_id": state.job_id,
        "status": None if state.status is None else str(state.status),
        "checkpoint": state.last_completed or None,
        "released": state.last_released or None,
    }
