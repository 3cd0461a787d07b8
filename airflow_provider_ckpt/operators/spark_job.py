"""The Airflow operator that runs a checkpointed job as one task, through spark-submit."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException

from airflow_provider_ckpt.concurrency import answer_within
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.driver_connections import check_conn_ids, driver_connections
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.hooks.rendered import given_arguments, refuse_lost
from airflow_provider_ckpt.hooks.spark_provider import checked
from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.job.options.flink_options import flink_values
from airflow_provider_ckpt.job.options.run_options import Duration, RunOptions, parse_duration
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.arguments import (
    ARGUMENTS,
    TEMPLATED,
    WITH_FALLBACK,
    check_arguments,
    check_flink_options,
    option_values,
    param_lines,
)
from airflow_provider_ckpt.operators.deferrable_submit import DeferrableSubmitOperator
from airflow_provider_ckpt.operators.job_file import job_folders, resolve_job
from airflow_provider_ckpt.operators.links import LINKS, LinkPusher
from airflow_provider_ckpt.operators.pointer import KEY, Pointer, PointerWriter
from airflow_provider_ckpt.operators.task_run import TaskRun
from airflow_provider_ckpt.operators.task_start import find_task_start
from airflow_provider_ckpt.packaging import PACKAGE, package_zip
from airflow_provider_ckpt.storage.root import check_root_of_run
from airflow_provider_ckpt.storage.writable import refuse_unwritable

if TYPE_CHECKING:
    from airflow.sdk import Context

Instant = datetime | str
DRIVER = PACKAGE / "spark" / "main.py"
_RESERVED = ("application", "application_args", "java_class")
_REQUEST_SECONDS = 2.0
_DIFFERS = re.compile(r"\b(map_index|ti|task|task_instance)\b")
"""Words that let a template differ between the instances of a mapped task."""


class CheckpointedSparkJobOperator(DeferrableSubmitOperator):
    """Run a :class:`~airflow_provider_ckpt.Job` on Spark. A retry resumes the job from its last checkpoint.

    The operator submits this package's driver, with this package as a zip before ``py_files``. Every argument of
    ``SparkSubmitOperator`` works (``conn_id``, ``conf``, ``packages``, …), except ``application``, ``application_args``
    and ``java_class``.

    * **retry**: the same job resumes. Finished operators do not run again, and ``restore`` is not repeated. A job that
      FAILED for good or FINISHED is not submitted again.
    * **clear**: ``on_clear`` decides whether the job resumes or restarts from scratch.
    * **deploy mode**: client mode is usual. In cluster mode the job must be a module in ``py_files``, and the
      task reads the result from the journal, without status lines. The operator refuses connections and secret storage
      options there, because the Spark configuration would show them. docs/airflow.md lists how a cluster passes them to
      the driver.
    * **deferrable**: in cluster mode on YARN and Kubernetes the task needs no worker slot while its driver runs. A
      retry finds the running driver again. Other clusters and modes are refused.

    Returns (XCom) ``{job_id, status, epoch, checkpoint, released, finished_operators, late_rows, unfit_rows,
    malformed_rows, changed_files}``.

    The operator's own arguments are these, and the options of a run:

    :param ckpt_conn_id: connection of type ``ckpt``: root URI and storage options. The argument ``root`` overrides the
        connection's root. (templated)
    :param conn_ids: Airflow connections that the job's sinks use (``conn_id=`` of a sink). Each driver gets them in its
        environment, as ``AIRFLOW_CONN_<ID>``. In client mode only. (templated)
    :param on_clear: what a cleared task does: ``resume`` its job, or ``restart`` it from scratch under the old id with
        ``~g1`` added. The files of the old job stay.
    :param options: options of a run under Flink's keys and in Flink's notation
        (``{"execution.batch.job-recovery.enabled": "false"}``). docs/recovery.md lists them. (templated)
    :param stop_grace: how long a killed task waits for the driver's savepoint before it ends the driver. Airflow kills
        a task that is marked failed, cleared or timed out after five seconds. The value must be below the grace period
        of a worker at its shutdown.
    :param name: name of the Spark application, the job id by default. (templated)
    :param deferrable: True to submit the driver and wait for its end in the triggerer. Airflow's ``[operators]
        default_deferrable`` has no effect, because client mode refuses a deferrable task. After ``execution_timeout``
        the driver is asked to leave with a savepoint.
    :param poll_interval: time between two polls of the job's journal while the task is deferred. The cluster is polled
        every ``status_poll_interval`` seconds, 60 at least, while the journal does not grow.
    """

    __doc__ = (__doc__ or "").rstrip(" ") + param_lines()

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "ckpt_conn_id",
        "conn_ids",
        "options",
        *TEMPLATED,
    )
    job: str
    root: str | None
    job_id: str | None
    ui_color = "#e2d4f0"
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        job: str,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        conn_ids: Sequence[str] = (),
        job_id: str | None = None,
        job_params: Mapping[str, str] | None = None,
        mode: str = RunOptions.mode,
        checkpoint_interval: Duration = RunOptions.checkpoint_interval,
        min_pause: Duration = RunOptions.min_pause,
        checkpoint_timeout: Duration = RunOptions.checkpoint_timeout,
        tolerable_failed_checkpoints: int = RunOptions.tolerable_failed_checkpoints,
        restart_attempts: int = RunOptions.restart_attempts,
        restart_delay: Duration = RunOptions.restart_delay,
        sink_timeout: Duration = RunOptions.sink_timeout,
        storage_timeout: Duration = RunOptions.storage_timeout,
        trigger_interval: Duration = RunOptions.trigger_interval,
        stop_after: Duration | None = None,
        drain_after: Duration | None = None,
        stop_at: Instant | None = None,
        drain_at: Instant | None = None,
        restore: str = RunOptions.restore,
        on_clear: Literal["resume", "restart"] = "resume",
        retained_checkpoints: int = RunOptions.retained_checkpoints,
        allow_non_restored_state: bool = RunOptions.allow_non_restored_state,
        forget_files: Sequence[str] = (),
        allow_code_from: Sequence[str] = (),
        new_settings: bool = RunOptions.new_settings,
        batch_recovery: bool = RunOptions.batch_recovery,
        options: Mapping[str, str] | None = None,
        stop_grace: Duration = 4.0,
        name: str | None = None,
        deferrable: bool = False,
        poll_interval: Duration = 10.0,
        **kwargs: Any,
    ) -> None:
        given = {argument: value for argument, value in locals().items() if argument in ARGUMENTS}
        for argument in _RESERVED:
            if kwargs.get(argument):
                raise InvalidTaskArgumentError(
                    argument=argument,
                    value=kwargs[argument],
                    problem="the submitted application is this package's driver; write your code as a Job",
                )
        if on_clear not in ("resume", "restart"):
            raise InvalidTaskArgumentError(argument="on_clear", value=on_clear, problem="write resume or restart")
        check_conn_ids(conn_ids)
        check_arguments(given)
        check_flink_options(options, given)
        super().__init__(name=name, deferrable=deferrable, poll_interval=poll_interval, **kwargs)
        for argument, value in given.items():
            setattr(self, argument, value)
        self._given = given_arguments(self, WITH_FALLBACK)
        self.ckpt_conn_id = ckpt_conn_id
        self.conn_ids = conn_ids
        self.on_clear = on_clear
        self.options = options
        self._stop_grace = parse_duration(stop_grace, "stop_grace")
        self._ckpt_run: TaskRun | None = None
        self._killed = False

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        self._hook = None  # dag.test() retries in the same process, and a try must not use the last try's hook
        self._killed = False
        with airflow_failures():
            self._check_connection()
            self._refuse_shared_job_id(context["ti"].map_index)
            if self._deferral is not None and (ended := self._resume_driver(context, self._deferral)) is not None:
                return ended
            run = self._begin(context)
            if run.ended_well:
                return self._publish_result(context, run.result())
            self._ckpt_run = run
            try:
                super().execute(context)
            except (AirflowException, RuntimeError) as error:
                # The driver's own reason is enough. If there is none, the error of spark-submit, with its long command,
                # is shown.
                cause = None if run.has_cause else error
                raise run.failure(self._hook, error, killed=self._killed) from cause
            finally:
                run.writer.flush()
            if self._killed and run.pointer.status is not JobStatus.FINISHED:
                raise run.killed_error()
            if self._deferral is not None:
                self._defer_after_submission(run, self._deferral)
            return self._publish_result(context, run.result())

    def _publish_result(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """Add the task's result to the asset events of its outlets, and return it."""
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra.update(result)
        return result

    def on_kill(self) -> None:
        """Ask the driver to stop, wait up to ``stop_grace`` for its savepoint, then end the driver if it still runs.

        Airflow calls this method in the main thread, during :meth:`execute`, after a user's mark or clear, at the
        shutdown of the worker, and after ``execution_timeout``.
        """
        if self._killed:
            return  # the signal comes twice: to this process, and to its supervisor, which passes it on
        self._killed = True
        if self._hook is None or self._ckpt_run is None:
            return
        deadline = time.monotonic() + self._stop_grace
        if self._ask_to_stop(self._ckpt_run):
            recorder = threading.Thread(target=self._ckpt_run.record_end, args=(self._stop_grace,), daemon=True)
            recorder.start()
            if self._has_left(deadline):
                return
        super().on_kill()

    def _ask_to_stop(self, run: TaskRun) -> bool:
        """Ask the driver to stop.

        Return True if the request was written in time. Another thread writes, as I/O may hang.
        """
        seconds = min(_REQUEST_SECONDS, self._stop_grace)
        return answer_within(seconds, lambda: run.ask_to_stop(self.log.warning)) is True

    def _has_left(self, deadline: float) -> bool:
        """Wait, and return True if the driver ends before ``deadline``. False in cluster mode, which hides the end."""
        hook = self._hook
        if not isinstance(hook, CheckpointedSparkSubmitHook):
            return False
        return hook.leave(max(0.0, deadline - time.monotonic())) and hook.deploy_mode == "client"

    # ---- before the submission

    def _check_connection(self) -> None:
        """Refuse arguments that were rendered without a value, and a bad Spark connection."""
        refuse_lost(self, self._given)
        super()._check_connection()

    def _refuse_shared_job_id(self, map_index: int | None) -> None:
        """Refuse a job_id that all instances of a mapped task share, because each would take over the job."""
        written = self._given.written.get("job_id")
        if map_index is None or map_index < 0 or written is None or _DIFFERS.search(written):
            return
        task = self.dag.get_task(self.task_id) if self.has_dag() else self  # type: ignore[no-untyped-call]
        if "job_id" not in getattr(task, "partial_kwargs", {"job_id": written}):
            return  # the task is expanded over job_id
        problem = (
            "the task is mapped, and each of its instances would take the job from the others. Let it differ, as in "
            "orders-{{ ti.map_index }}, expand over it, or leave it out"
        )
        raise InvalidTaskArgumentError(argument="job_id", value=self.job_id, problem=problem)

    def _begin(self, context: Context) -> TaskRun:
        """Find the job, write the pointer with the progress of an earlier try, and return the execution."""
        store, ti = context["task_state_store"], context["ti"]
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        clear_number = context["dag_run"].clear_number
        start = find_task_start(
            hook,
            ti,
            Pointer.from_json(store.get(KEY)),
            job_id=self.job_id,
            on_clear=self.on_clear,
            retries=self.retries or 0,
            clear_number=clear_number,
        )
        start.report(self.log)
        if start.is_cleared:
            self._forget_cluster_job(store)
        attempt = f"{start.own_id}~t{ti.try_number}"
        options = start.adjusted(self._options(hook.root_uri, start.job_id, attempt))
        new = Pointer(
            start.job_id, hook.root_uri, ti.try_number, ti.max_tries, start.generation, clear_number=clear_number
        )
        pointer = start.pointer(new)
        if self._deferral is not None and not pointer.status.ended_well:
            after = 0 if start.state is None else start.state.epoch
            pointer = replace(pointer, submission=self._deferral.cluster.submission(attempt, after))
        return self._new_run(context, hook, pointer, options, start.stopped_epoch)

    def _new_run(
        self,
        context: Context,
        hook: CheckpointHook,
        pointer: Pointer,
        options: RunOptions,
        stopped_epoch: int | None = None,
    ) -> TaskRun:
        """Write the pointer, publish the job's id, and return the execution."""
        ti = context["ti"]
        hook.storage()  # opened here, because a kill leaves no time for a connection lookup
        writer = PointerWriter(context["task_state_store"], pointer, clock=time.monotonic, warn=self.log.warning)
        writer.write()
        ti.xcom_push(JOB_ID_XCOM, pointer.job_id)
        return TaskRun(hook, writer, options, stopped_epoch, LinkPusher(ti.xcom_push, self.log.warning))

    def _forget_cluster_job(self, store: Any) -> None:
        # Otherwise the Spark operator would find the id of an ended cluster-mode driver and not submit again.
        for key in (self.external_id_key, getattr(self, "_K8S_DRIVER_STATUS_KEY", None)):
            if key and store.get(key) is not None:
                store.delete(key)

    def _options(self, root: str, job_id: str, attempt: str) -> RunOptions:
        given = option_values({argument: getattr(self, argument) for argument in ARGUMENTS})
        given |= flink_values(self.options or {}, given)
        return RunOptions(**{**given, "root": root, "job_id": job_id, "attempt": attempt})

    def _get_hook(self) -> CheckpointedSparkSubmitHook:
        """Return the hook that submits this package's driver. SparkSubmitOperator.execute calls this method once."""
        if self._ckpt_run is None:
            raise RuntimeError("The spark-submit hook of this operator exists only while the operator is executed")
        if self._killed:
            raise self._ckpt_run.killed_error()
        run = self._ckpt_run
        base = checked(super()._get_hook())
        options, submission = run.options, run.pointer.submission
        conf = (
            {} if self._deferral is None or submission is None else self._deferral.cluster.conf(submission, base._conf)
        )
        check_root_of_run(run.hook.storage())  # here, because the driver would refuse it minutes later
        if (base._connection["deploy_mode"] or "client") == "client":
            refuse_unwritable(run.hook.storage())
            options = replace(options, job=resolve_job(options.job, self._job_folders()))
        self.application = str(DRIVER)
        return CheckpointedSparkSubmitHook(
            base,
            name=self._application_name(options),
            application_args=self._application_args(options),
            py_files=[str(package_zip())],
            on_status=run.record,
            location=run.hook.settings(),
            conf=conf,
            connections=driver_connections(self.conn_ids),
        )

    def _application_name(self, options: RunOptions) -> str:
        return self.name or options.job_id

    def _application_args(self, options: RunOptions) -> list[str]:
        return ["--options", json.dumps(options.to_json())]

    def _job_folders(self) -> list[Path]:
        return job_folders(self)
