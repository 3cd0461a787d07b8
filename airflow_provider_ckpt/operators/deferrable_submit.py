"""The deferrable part of an operator that submits a driver, and the check of the operator's spark-submit arguments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    TaskDeferralTimeout,
)

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.deferrable_cluster import DeferrableCluster
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.hooks.spark_provider import checked, refuse_unfit_operator, refuse_unfit_provider
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.run_options import Duration, parse_duration
from airflow_provider_ckpt.operators.deferral import LEAST_STATUS_INTERVAL, Deferral, EarlierDriver, ask_to_leave
from airflow_provider_ckpt.operators.pointer import KEY, Pointer, PointerWriter
from airflow_provider_ckpt.operators.task_run import TaskRun
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict

if TYPE_CHECKING:
    from airflow.sdk import Context

_LISTS = ("files", "py_files", "archives", "jars", "packages", "exclude_packages", "repositories")
_TEXTS = (
    *("name", "conn_id", "deploy_mode", "driver_class_path", "properties_file", "spark_binary", "yarn_queue"),
    *("executor_memory", "driver_memory", "keytab", "principal", "proxy_user"),
)


def check_spark_arguments(given: Mapping[str, Any]) -> None:
    """Refuse arguments for spark-submit that are not strings, while Airflow parses the Dag. None and XComs pass.

    Without this check a list would reach the command line, and each try would fail with an error of Python. Raises
    InvalidTaskArgumentError.
    """
    for argument in (*_LISTS, *_TEXTS):
        value = given.get(argument)
        if value is None or isinstance(value, str) or hasattr(value, "resolve"):
            continue
        problem = "write one text, with commas between several" if argument in _LISTS else "write a text"
        raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)


_NOT_DEFERRABLE = {
    "yarn_rm_auth": "it cannot be handed to the triggerer. Give keytab and principal in the Spark connection, or a "
    "user and a password in the address of its ResourceManager",
    "post_submit_commands": "they run on a worker after the driver's end, and no worker is there then",
}


class DeferrableSubmitOperator(SparkSubmitOperator):
    """Abstract operator that can defer its task while the driver runs.

    The trigger's event is the only report to the task of how the driver ended, because ``dag.test()`` passes no other.
    """

    ckpt_conn_id: str | None
    root: str | None
    job_id: str | None
    on_clear: str

    def __init__(self, *, deferrable: bool, poll_interval: Duration, **kwargs: Any) -> None:
        refuse_unfit_provider()
        check_spark_arguments(kwargs)
        if deferrable:
            _refuse_early(kwargs)
        super().__init__(**kwargs)
        refuse_unfit_operator(self)
        self.deferrable = deferrable
        kinds.FLAG.read(deferrable, "deferrable")
        self._poll_interval = parse_duration(poll_interval, "poll_interval")
        if self._poll_interval <= 0:
            raise InvalidTaskArgumentError(argument="poll_interval", value=poll_interval, problem="give more than 0")
        self._deferral: Deferral | None = None

    def execute_resumable(self, context: Context) -> None:
        """Submit the driver, and wait for its end if the task is not deferrable. Called in cluster mode only."""
        if self._deferral is None:
            super().execute_resumable(context)
            return
        hook = self._hook
        assert isinstance(hook, CheckpointedSparkSubmitHook)
        try:
            hook.submit(self.application)
        except RuntimeError:
            if hook.exit_code != 0:
                raise
            # spark-submit has submitted, but its log level hides the application id. The driver's tag finds it.

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None, **_: Any) -> dict[str, Any]:
        """Return the job's result, or raise the failure, from the trigger's event.

        If the driver has left the job as requested, submit a new driver.
        """
        with airflow_failures():
            if event is None:
                raise AirflowFailException("The trigger ended without an event")
            verdict = DriverVerdict(**event)
            self.log.info("%s", verdict.message)
            if verdict.outcome == "left":
                result: dict[str, Any] = self.execute(context)  # type: ignore[assignment, func-returns-value]
                return result
            return self._ended(context, verdict)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume a deferred task. After a timeout, ask the driver to leave and re-raise TaskDeferralTimeout."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            pointer = Pointer.from_json(context["task_state_store"].get(KEY))
            if pointer is not None:
                ask_to_leave(pointer, self.ckpt_conn_id, self.log.warning)
            raise

    def _publish_result(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    # ---- before the submission

    def _check_connection(self) -> None:
        """Refuse a bad Spark connection before anything is written.

        Raises InvalidInputError if the connection does not exist, because the Spark provider would then use YARN.
        Raises InvalidTaskArgumentError if the task is deferrable and a driver on this cluster could not outlive the
        task.
        """
        try:
            connection = BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise InvalidInputError(
                "The Airflow connection {conn_id!r}, which says where Spark runs, does not exist. Create it with type "
                "spark and the master as its host (local[*], spark://host:7077, yarn, k8s://...), or name another one "
                "with conn_id=.",
                conn_id=self._conn_id,
            ) from None
        self._deferral = self._deferral_to(connection.extra_dejson) if self.deferrable else None

    def _deferral_to(self, extra: dict[str, Any]) -> Deferral:
        try:
            base = checked(SparkSubmitOperator._get_hook(self))
        except (RuntimeError, NameError) as error:  # the Spark provider lacks an import for Kubernetes
            if "kube" not in str(error):
                raise
            problem = "deferrable=True on Kubernetes needs apache-airflow-providers-cncf-kubernetes"
            raise InvalidTaskArgumentError(argument="conn_id", value=self._conn_id, problem=problem) from error
        cluster = DeferrableCluster.of(base, extra)
        # With these flags the Spark provider's spark-submit does not wait, and its hook can kill the driver.
        self._yarn_track_via_rm_api = cluster.name == "yarn"
        self._track_driver_via_k8s_api = cluster.name == "kubernetes"
        return Deferral(
            cluster,
            extra,
            self._conn_id,
            self.ckpt_conn_id,
            self._poll_interval,
            max(LEAST_STATUS_INTERVAL, float(self._status_poll_interval)),
        )

    def _resume_driver(self, context: Context, deferral: Deferral) -> dict[str, Any] | None:
        """Defer the task if the driver of an earlier try runs or may run. Return None if this try must submit a driver.

        If the earlier driver ended the job, and no user has cleared the task, return the job's result or raise its
        failure.
        """
        earlier = deferral.find_earlier_driver(context, self.root, self.job_id, self.retries or 0)
        if earlier is None:
            return None
        self.log.info("An earlier try left a driver. %s", earlier.verdict.message)
        if earlier.verdict.outcome == "wait":
            self._attach(context, deferral, earlier)
        if earlier.is_cleared or earlier.verdict.outcome in ("retry", "left"):
            return None
        return self._ended(context, earlier.verdict)

    def _attach(self, context: Context, deferral: Deferral, earlier: EarlierDriver) -> NoReturn:
        ti, is_leaving = context["ti"], earlier.is_cleared and self.on_clear == "restart"
        pointer = earlier.pointer
        if is_leaving:  # the pointer is not updated, because the execution after the wait must detect the clear
            self.log.info("Cleared: the driver is asked to leave, then the job starts over")
        else:
            number = context["dag_run"].clear_number
            pointer = replace(pointer, try_number=ti.try_number, max_tries=ti.max_tries, clear_number=number)
            self._writer(context, pointer).write()
            self.log.info("The driver may be running: this try waits for it and submits nothing")
        ti.xcom_push(JOB_ID_XCOM, pointer.job_id)
        self._wait_for(deferral, pointer, leaving=is_leaving)

    # ---- after the submission

    def _defer_after_submission(self, run: TaskRun, deferral: Deferral) -> NoReturn:
        hook, submission = self._hook, run.pointer.submission
        assert isinstance(hook, CheckpointedSparkSubmitHook)
        assert submission is not None
        submission = deferral.submitted(submission, hook.application_id)
        application = submission.application_id
        run.writer.pointer = replace(run.pointer, submission=submission, application_id=application, is_deferred=True)
        run.writer.flush()  # if this fails, a retry finds the driver by its tag, which the pointer already has
        self._wait_for(deferral, run.pointer)

    def _wait_for(self, deferral: Deferral, pointer: Pointer, *, leaving: bool = False) -> NoReturn:
        trigger = deferral.trigger(pointer, leaving=leaving)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=self.execution_timeout)
        raise AssertionError("defer() raises")

    def _ended(self, context: Context, verdict: DriverVerdict) -> dict[str, Any]:
        """Write the driver's end into the pointer, and return the task's result.

        Raises AirflowFailException if another try would end the same way, and AirflowException if a retry can resume
        the job.
        """
        result = verdict.result or {}
        pointer = Pointer.from_json(context["task_state_store"].get(KEY))
        if pointer is not None and result:
            writer = self._writer(context, pointer)
            writer.pointer = pointer.after_end(result)
            writer.flush()
        if verdict.outcome == "failed":
            raise AirflowFailException(verdict.message)
        if verdict.outcome != "succeeded":
            raise AirflowException(verdict.message)
        return self._publish_result(context, result)

    def _writer(self, context: Context, pointer: Pointer) -> PointerWriter:
        return PointerWriter(context["task_state_store"], pointer, clock=time.monotonic, warn=self.log.warning)


def _refuse_early(given: dict[str, Any]) -> None:
    """Refuse arguments that need a worker after the submission, and client mode, while Airflow parses the Dag."""
    for argument, problem in _NOT_DEFERRABLE.items():
        if given.get(argument):
            raise InvalidTaskArgumentError(argument=argument, value="…", problem=f"with deferrable=True {problem}")
    if given.get("deploy_mode") == "client":
        problem = (
            "with deferrable=True the driver has to outlive the task: use deploy_mode='cluster' on YARN or Kubernetes"
        )
        raise InvalidTaskArgumentError(argument="deploy_mode", value="client", problem=problem)
