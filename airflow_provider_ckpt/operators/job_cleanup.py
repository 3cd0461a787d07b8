"""An Airflow task that deletes a job that is over, after the tasks that read its released output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.hooks.airflow_errors import airflow_failures
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.driver_connections import check_conn_ids, connections_here
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.hooks.job_of_task import job_of_task
from airflow_provider_ckpt.hooks.rendered import check_given_job_id, given_arguments, refuse_lost
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.operators.job_file import job_folders, resolve_job
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.printable import each_text, one_line

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletedJob

_FLAGS = ("unfinished", "abandoned", "discard_unreleased", "keep_staged", "persisted")


class CheckpointedJobCleanupOperator(BaseOperator):
    """Delete the files of a job under the checkpoint root and its staged output, never its released output.

    By default the task deletes a FINISHED job only. It succeeds for a job that was deleted before or that never began,
    so it may follow a skipped task. It fails for good for a job that is not over, because a retry or a clear would
    resume that job. The job's id cannot be used again: a cleared task of a deleted job fails, unless it has
    ``on_clear="restart"``.

    Returns (XCom) ``{job_id, status, was, files, bytes, staged, left}``. ``status`` is DELETED, or None if there was no
    job. ``was`` is the job's status before the deletion. ``files`` and ``bytes`` count what this task deleted under the
    root. ``staged`` counts the deleted batches by sink. ``left`` names the sinks whose staged output stays, because
    they are no file sinks and ``job`` is not given.

    :param job_id: the job; ``{{ ti.xcom_pull('orders')['job_id'] }}``, or the id given to it. (templated)
    :param job_task_id: instead of ``job_id``, the id of the task of this Dag that runs the job. Not for a mapped task.
    :param job: the job's definition as it ran, ``"path/to/file.py:job"`` or ``"package.module:job"``. With it the task
        also deletes staged output in databases, Kafka and tables. The task runs the code of ``job``. (templated)
    :param job_params: parameters of the job's run, for ``job.param``. (templated)
    :param conn_ids: Airflow connections that the sinks of ``job`` use. (templated)
    :param unfinished: True to also delete a job that is STOPPED or FAILED. Its next run can no longer resume it.
    :param abandoned: True to also delete a job that is RESTARTING (its task failed and will not be retried), or whose
        driver was lost. The task refuses a job whose driver is alive.
    :param discard_unreleased: True to also delete a job with completed checkpoints that are not released.
    :param keep_staged: True to keep staged output in the targets of the job's sinks.
    :param persisted: True to also delete a job that keeps results for other jobs (``persist=True``), with these
        results. For a teardown after the last task that reads them.
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, overrides the connection's. (templated)
    """

    template_fields: Sequence[str] = ("job_id", "job", "job_params", "conn_ids", "ckpt_conn_id", "root")
    ui_color = "#e2d4f0"

    def __init__(
        self,
        *,
        job_id: str | None = None,
        job_task_id: str | None = None,
        job: str | None = None,
        job_params: Mapping[str, str] | None = None,
        conn_ids: Sequence[str] = (),
        unfinished: bool = False,
        abandoned: bool = False,
        discard_unreleased: bool = False,
        keep_staged: bool = False,
        persisted: bool = False,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (job_id is None) == (job_task_id is None):
            problem = "give one of job_id and job_task_id"
            raise InvalidTaskArgumentError(argument="job_id", value=job_id, problem=problem)
        check_given_job_id(job_id)
        check_conn_ids(conn_ids)
        for argument, value in (("job_params", job_params), ("conn_ids", conn_ids)):
            if value and job is None:
                problem = "it is for the sinks of a job: give job, too, because the journal does not have them"
                raise InvalidTaskArgumentError(argument=argument, value=value, problem=problem)
        self.job_id = job_id
        self.job_task_id = job_task_id
        self.job = job
        self.job_params = job_params
        self.conn_ids = conn_ids
        self.unfinished = unfinished
        self.abandoned = abandoned
        self.discard_unreleased = discard_unreleased
        self.keep_staged = keep_staged
        self.persisted = persisted
        for flag in _FLAGS:  # no flag is templated: the text "false" would count as true and allow a loss
            kinds.FLAG.read(getattr(self, flag), flag)
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self._given = given_arguments(self, ("job_id", "job", "job_params", "root"))

    def execute(self, context: Context) -> dict[str, Any]:
        with airflow_failures():
            refuse_lost(self, self._given)
            job_id = self._job_id(context)
            if job_id is None:
                self.log.info("Task %s has begun no job in this Dag run: there is nothing to delete", self.job_task_id)
                return _result(None, None)
            try:
                deleted = self._delete(job_id)
            except NoSuchJobError as error:
                self.log.info("There is nothing to delete: %s", error)
                return _result(job_id, None)
            self._log_deletion(deleted)
            return _result(job_id, deleted)

    def _delete(self, job_id: str) -> DeletedJob:
        with connections_here(self.conn_ids):  # also for the job's file, which may read a connection
            return CheckpointHook(self.ckpt_conn_id, root=self.root).delete(
                job_id,
                self._definition(),
                unfinished=self.unfinished,
                abandoned=self.abandoned,
                discard_unreleased=self.discard_unreleased,
                keep_staged=self.keep_staged,
                persisted=self.persisted,
            )

    def _definition(self) -> Job | None:
        if self.job is None:
            return None
        return load_job(resolve_job(self.job, job_folders(self)), self.job_params)

    def _job_id(self, context: Context) -> str | None:
        """Return the job's id, or None if its task has not begun in this Dag run since its last clear.

        Raises InvalidTaskArgumentError if the task of ``job_task_id`` runs no job.
        """
        if self.job_task_id is None:
            return self.job_id
        job = job_of_task(self, context, self.job_task_id).find()
        if job.job_id is None and job.state == "success" and not self._runs_job(self.job_task_id):
            problem = "the task succeeded without a job id, so it runs no job. Name the task that runs the job"
            raise InvalidTaskArgumentError(argument="job_task_id", value=self.job_task_id, problem=problem)
        return job.job_id

    def _runs_job(self, task_id: str) -> bool:
        """Return True if a task's class runs jobs, or if the Dag is not known here.

        Such a task succeeds without a job id if a user marks it successful before its start.
        """
        return not self.has_dag() or isinstance(self.dag.get_task(task_id), CheckpointedSparkJobOperator)  # type: ignore[no-untyped-call]

    def _log_deletion(self, deleted: DeletedJob) -> None:
        if deleted.already:
            self.log.info("Job %s is deleted already", deleted.job_id)
            return
        self.log.info(
            "Deleted job %s, which was %s: %s files, %s bytes; staged batches by sink: %s",
            deleted.job_id,
            deleted.was,
            deleted.files,
            deleted.bytes,
            dict(deleted.staged) or "none",
        )
        if deleted.left:
            self.log.warning("The staged output of %s was kept", ", ".join(deleted.left))


def _result(job_id: str | None, deleted: DeletedJob | None) -> dict[str, Any]:
    if deleted is None:
        return {"job_id": job_id, "status": None, "was": None, "files": 0, "bytes": 0, "staged": {}, "left": []}
    return {
        "job_id": deleted.job_id,
        "status": str(JobStatus.DELETED),
        "was": None if deleted.was is None else str(deleted.was),
        "files": deleted.files,
        "bytes": deleted.bytes,
        "staged": each_text(deleted.staged, one_line),
        "left": each_text(deleted.left, one_line),
    }
