"""The base class of a group's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.options.run_options import Duration, RunOptions
from airflow_provider_ckpt.operators.arguments import check_timing
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.errors import JobGoneError
from airflow_provider_ckpt.operators.group_run import GroupRun
from airflow_provider_ckpt.operators.pointer import KEY, Pointer
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.operators.task_run import TaskRun
from airflow_provider_ckpt.operators.task_start import OTHER_JOB, find_resumed_job
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.triggers.group_task_states import Siblings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
    from airflow_provider_ckpt.journal.state import JobState


class GroupTaskOperator(CheckpointedSparkJobOperator):
    """Task of a group. The task runs a part of the job, in the deployment of the task's Dag run.

    ``part`` is the task's name in the journal. :class:`Timing` describes ``poll``, ``lost_after`` and ``silence``.
    """

    part = "task"

    def __init__(
        self,
        *,
        ckpt_group: str,
        poll: Duration | None = None,
        lost_after: Duration | None = None,
        silence: Duration | None = None,
        **kwargs: Any,
    ) -> None:
        self._chosen = {"poll": poll, "lost_after": lost_after, "silence": silence}
        check_timing(self._chosen)
        super().__init__(**kwargs)
        self.ckpt_group = ckpt_group
        self._part: Sequence[str] = ()
        self._application = ""
        self._was_cleared = self._is_first = False
        self._before: Pointer | None = None
        """Pointer of the earlier try that this try continues. None on a first try and after a clear."""
        self._group_run, self._siblings = GroupRun(""), Siblings("", "", "")

    # ---- the beginning of every execution

    def _start(self, context: Context) -> TaskRun:
        """Find the job, write the pointer, and return the execution. The task state store is read and written once."""
        self._hook, self._killed, self._part = None, False, ()  # dag.test() retries in the same process
        self._check_connection()
        store, ti, clear_number = context["task_state_store"], context["ti"], context["dag_run"].clear_number
        self._group_run = GroupRun.of(ti.dag_id, self.ckpt_group, ti.run_id)
        self._siblings = Siblings.of(ti, self.ckpt_group)
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        job_id = check_job_id(self._group_run.name if self.job_id is None else self.job_id)
        before = Pointer.from_json(store.get(KEY))
        self._is_first = before is None
        self._was_cleared = before is not None and was_cleared(before, ti, self.retries or 0, clear_number)
        self._before = None if self._was_cleared else before
        if self._before is not None:
            requested_id, job_id = job_id, find_resumed_job(hook, self._before, job_id, self._group_run.owns)
            if requested_id != job_id:
                self.log.warning(OTHER_JOB, requested_id, job_id, "group")
        options = self._options(hook.root_uri, job_id, self._group_run.attempt(self.part, ti.try_number))
        epoch = None if self._before is None else self._before.epoch
        pointer = Pointer(job_id, hook.root_uri, ti.try_number, ti.max_tries, clear_number=clear_number, epoch=epoch)
        self._ckpt_run = run = self._new_run(context, hook, pointer, options)
        return run

    def _timing(self, run: TaskRun) -> Timing:
        """Return the poll interval and timeouts.

        Raises InvalidInputError if a chosen value is too short for the root.
        """
        return Timing.of(run.pointer.root).with_overrides(self._chosen)

    @staticmethod
    def _read_state(run: TaskRun) -> JobState:
        return run.hook.client(run.pointer.job_id).read_state()

    def _taken_over_error(self, run: TaskRun, state: JobState) -> AirflowFailException | JobGoneError:
        """Return the error for a job that another driver has taken over, or whose journal is missing."""
        if not is_journaled(state):
            return JobGoneError(job_id=run.pointer.job_id, root=redact_uri(run.pointer.root))
        owner = state.prepared_by or state.attempt or "another driver"
        return AirflowFailException(
            f"Job {run.pointer.job_id} is no longer this Dag run's: {owner} has taken it over. A retry would take it "
            "back; clear the group to do that."
        )

    @staticmethod
    def _not_prepared_error(state: JobState) -> AirflowException:
        return AirflowException(f"spark-submit ended without an error, but job {state.job_id} is not prepared")

    # ---- deferred

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume a deferred task.

        If the deferral timed out, the workers still continue, because the next try needs them.
        """
        return SparkSubmitOperator.resume_execution(self, next_method, next_kwargs, context)

    # ---- spark-submit

    def _submit(self, context: Context, run: TaskRun, *part: str, application: str = "") -> None:
        """Submit a driver with the arguments ``part`` and wait for its end.

        ``application`` is added to the name of the Spark application. Raises AirflowException if the driver failed.
        """
        self._part, self._application, self._hook = part, application, None
        try:
            SparkSubmitOperator.execute(self, context)
            if self._killed:
                raise AirflowException("spark-submit was ended")
        except (AirflowException, RuntimeError) as error:
            if self._killed:
                raise self._killed_error(run) from None
            cause = None if run.has_cause else error
            raise run.failure(self._hook, error, killed=self._killed) from cause
        finally:
            run.writer.flush()

    def _killed_error(self, run: TaskRun) -> AirflowException:
        return AirflowException(f"Job {run.pointer.job_id}: this task was killed. A retry prepares the job again.")

    def on_kill(self) -> None:
        """End the submitted driver. No stop is requested, because a request would also reach the job's next driver."""
        if self._killed:
            return  # the signal comes twice: to this process, and to its supervisor, which passes it on
        self._killed = True
        if self._hook is not None:
            SparkSubmitOperator.on_kill(self)

    def _application_args(self, options: RunOptions) -> list[str]:
        return [*super()._application_args(options), *self._part]

    def _application_name(self, options: RunOptions) -> str:
        name = super()._application_name(options)
        return f"{name} {self._application}" if self._application else name

    def _get_hook(self) -> CheckpointedSparkSubmitHook:
        hook = super()._get_hook()
        if hook.deploy_mode != "client":
            raise InvalidTaskArgumentError(
                argument="deploy_mode",
                value=hook.deploy_mode,
                problem="a task of a group stays with its driver: it runs in client mode",
            )
        return hook
