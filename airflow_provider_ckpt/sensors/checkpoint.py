"""The sensor that waits for a checkpoint, for the end of a job, or for the end of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JobOfTask, job_of_task
from airflow_provider_ckpt.hooks.rendered import check_given_job_id, given_arguments, is_rendered_later, refuse_lost
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.run_options import Duration, parse_duration
from airflow_provider_ckpt.job.options.units import whole_number
from airflow_provider_ckpt.sensors.poke_memory import SensorMemory
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict
from airflow_provider_ckpt.triggers.job_poll import JobPoll

if TYPE_CHECKING:
    from airflow.sdk import Context


class CheckpointSensor(BaseSensorOperator):
    """Wait until a job has reached a condition and its sinks have released the checkpoint.

    The condition is ``checkpoint``, ``since``, ``finished``, ``watermark``, or several of them together. Without any of
    them, the sensor waits for the end of the job (``checkpoint="final"``). The job is ``job_id``, or the job of the
    task ``job_task_id`` of this Dag run.

    The sensor also waits for a job that has not started, and while the storage does not answer. It fails at once,
    without retries, in these cases:

    * the job FAILED for good, or FINISHED without reaching the condition;
    * the task of ``job_task_id`` failed, or succeeded and left the job STOPPED;
    * no driver runs the job any longer, as after a stop (``stalled_after``).

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job; ``{{ ti.xcom_pull('orders')['job_id'] }}`` after its task, or the id given to it.
        (templated)
    :param job_task_id: id of the task of this Dag that runs the job, for a sensor that runs at the same time. Not for a
        mapped task.
    :param checkpoint: a number (that checkpoint or a later one), ``final`` (the job is FINISHED), or ``next``
        (triggered after this sensor's first poll). (templated)
    :param since: datetime or ISO 8601 with a zone, such as ``{{ data_interval_end }}``: a checkpoint that was triggered
        at this time or later, by the clock of the driver's host, which must agree with yours. (templated)
    :param finished: uid of an operator of the job, such as a bounded source: the operator has finished. (templated)
    :param watermark: datetime or ISO 8601 with a zone, such as ``{{ data_interval_end }}``: the watermarks of the job's
        queries have reached this event time. All windows that end at this time or earlier are closed. Fails at once for
        a job without any watermark. (templated)
    :param released: False if a completed checkpoint is enough.
    :param wait_for_restart: True to keep waiting in the cases above, for a job that later Dag runs continue.
    :param stalled_after: time without growth of the journal after which the sensor fails, unless this host sees the
        driver alive or Airflow runs the task of ``job_task_id``. The default is 15 minutes, or more if the job's
        checkpoints are far apart. For a job in batch mode, which may journal nothing for hours, the default is to fail
        only if this host sees that the driver is gone. Give more than the ``retry_delay`` of the job's task, and more
        for a job whose interval is longer than in its first run.
    :param max_checkpoint_age: time without a new released checkpoint (completed, with ``released=False``) after which
        the sensor fails, even if a driver runs the job. With it a sensor that waits for the end of an endless job
        watches the job's health. The time is counted in polls, from the first poll. Give more than the interval, the
        checkpoint timeout and the ``retry_delay`` of the job's task together. Not for a job in batch mode, which fails
        the sensor.
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    :param deferrable: True to wait in the triggerer instead of in a worker slot.
    """

    template_fields: Sequence[str] = ("job_id", "checkpoint", "since", "finished", "watermark", "ckpt_conn_id", "root")
    ui_color = "#e2d4f0"

    def __init__(
        self,
        *,
        job_id: str | None = None,
        job_task_id: str | None = None,
        checkpoint: int | str | None = None,
        since: datetime | str | None = None,
        finished: str | None = None,
        watermark: datetime | str | None = None,
        released: bool = True,
        wait_for_restart: bool = False,
        stalled_after: Duration | None = None,
        max_checkpoint_age: Duration | None = None,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (job_id is None) == (job_task_id is None):
            problem = "give one of job_id and job_task_id"
            raise InvalidTaskArgumentError(argument="job_id", value=job_id, problem=problem)
        flags = {"released": released, "wait_for_restart": wait_for_restart, "deferrable": deferrable}
        for name, value in flags.items():
            kinds.FLAG.read(value, name)
        self.job_id = job_id
        self.job_task_id = job_task_id
        self.checkpoint = checkpoint
        self.since = since
        self.finished = finished
        self.watermark = watermark
        self.released = released
        self.wait_for_restart = wait_for_restart
        self.stalled_after = None if stalled_after is None else parse_duration(stalled_after, "stalled_after")
        self.max_checkpoint_age = (
            None if max_checkpoint_age is None else parse_duration(max_checkpoint_age, "max_checkpoint_age")
        )
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.deferrable = deferrable
        self._refuse_early()
        self._given = given_arguments(self, ("job_id", "checkpoint", "since", "finished", "watermark", "root"))
        self._job_poll: JobPoll | None = None
        self._memory: SensorMemory | None = None

    def _refuse_early(self) -> None:
        """Refuse values that no poll can use, while Airflow parses the Dag. Templates are checked when the task runs.

        Raises a subclass of InvalidInputError.
        """
        if self.max_checkpoint_age == 0:
            raise InvalidTaskArgumentError(argument="max_checkpoint_age", value=0, problem="give more than 0")
        check_given_job_id(self.job_id)
        if not is_rendered_later(self.checkpoint):
            self._awaited_checkpoint()
        for argument, value in (("since", self.since), ("watermark", self.watermark)):
            if not is_rendered_later(value):
                _instant(value, argument)

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        with self._allowed_to_fail(), airflow_failures():
            verdict = self._poll(context)
        if verdict.outcome == "wait":
            self.defer(
                trigger=self._trigger(cast("JobPoll", self._job_poll), context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        with self._allowed_to_fail():
            return self._finish(verdict)

    @contextmanager
    def _allowed_to_fail(self) -> Iterator[None]:
        """Apply ``soft_fail`` and ``never_fail`` to a deferrable sensor's first poll. Airflow itself does so later."""
        try:
            yield
        except AirflowFailException as error:
            for flag in ("soft_fail", "never_fail"):
                if getattr(self, flag):
                    raise AirflowSkipException(f"Skipping due to {flag} is set to True. {error}") from error
            raise

    def poke(self, context: Context) -> bool | PokeReturnValue:
        with airflow_failures():
            verdict = self._poll(context)
        if verdict.outcome == "wait":
            return False
        return PokeReturnValue(is_done=True, xcom_value=self._finish(verdict))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None, **_: Any) -> Any:
        if event is None:
            raise AirflowFailException("The trigger ended without an event")
        return self._finish(Verdict(**event))

    def _poll(self, context: Context) -> Verdict:
        if self._job_poll is None:
            refuse_lost(self, self._given)
            self._memory = SensorMemory.of(cast("Mapping[str, Any]", context), keeps_polls=self.reschedule)
            self._job_poll = JobPoll(
                CheckpointHook(self.ckpt_conn_id, root=self.root),
                self._condition(),
                interval=self.poke_interval,
                task=self._task(context),
                stalled_after=self.stalled_after,
                max_checkpoint_age=self.max_checkpoint_age,
                seen=self._memory.seen,
                next_of=self._memory.next_of,
            )
        verdict = self._job_poll()
        if self._memory is not None and verdict.outcome == "wait":
            self._memory.keep(self._job_poll)
        self.log.info("%s", verdict.message)
        return verdict

    def _finish(self, verdict: Verdict) -> dict[str, Any] | None:
        if verdict.outcome == "failed":
            raise AirflowFailException(verdict.message)
        return verdict.result

    def _trigger(self, poll: JobPoll, context: Context) -> CheckpointTrigger:
        task = self._task(context)
        return CheckpointTrigger(
            condition=asdict(poll.condition),
            stalled_after=self.stalled_after,
            max_checkpoint_age=self.max_checkpoint_age,
            job_task=None if task is None else dict(vars(task)),
            ckpt_conn_id=self.ckpt_conn_id,
            root=self.root,
            poll_interval=self.poke_interval,
        )

    def _condition(self) -> CheckpointCondition:
        """Return the condition. Raises a subclass of InvalidInputError if a template was rendered wrongly."""
        return CheckpointCondition(
            job_id=self.job_id or "",
            checkpoint=self._awaited_checkpoint(),
            released=self.released,
            wait_for_restart=self.wait_for_restart,
            since=_instant(self.since, "since"),
            finished=self.finished,
            watermark=_instant(self.watermark, "watermark"),
        )

    def _task(self, context: Context) -> JobOfTask | None:
        return None if self.job_task_id is None else job_of_task(self, context, self.job_task_id)

    def _awaited_checkpoint(self) -> int | Literal["final", "next"] | None:
        if self.checkpoint is None:
            conditions = (self.since, self.finished, self.watermark)
            return "final" if all(value is None for value in conditions) else None
        if self.checkpoint in ("final", "next"):
            return cast('Literal["final", "next"]', self.checkpoint)
        number = whole_number(str(self.checkpoint))
        if not number:
            raise InvalidTaskArgumentError(
                argument="checkpoint", value=self.checkpoint, problem='write a number above 0, "final" or "next"'
            )
        return number


def _instant(value: datetime | str | None, argument: str) -> float | None:
    """Return an instant in epoch seconds; None for None. Raises BadOptionError unless it is a time with a zone."""
    if value is None:
        return None
    time: datetime = kinds.TIME.read(value, argument)
    return time.timestamp()
