"""Support for a task that defers while its driver runs: the search for an earlier driver, and the waiting trigger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.application import ApplicationState, NotAsked, Submission
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.deferrable_cluster import DeferrableCluster, status_of
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.pointer import KEY, Pointer
from airflow_provider_ckpt.operators.task_start import is_of_task, own_job_id
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.spark_application import SparkApplicationTrigger

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient

LEAST_STATUS_INTERVAL = 60.0
"""Minimum seconds between two polls of the cluster for one task. Hundreds of deferred tasks may poll one cluster."""


@dataclass(frozen=True)
class EarlierDriver:
    """The driver of an earlier try, with its verdict. ``is_cleared`` is True if a user has cleared the task."""

    pointer: Pointer
    verdict: DriverVerdict
    is_cleared: bool


@dataclass(frozen=True)
class Deferral:
    """Settings for the deferral of a task. ``extra`` is the decoded extra of the task's Spark connection.

    The trigger polls the journal every ``poll_interval`` seconds, and the cluster every ``status_interval`` seconds.
    """

    cluster: DeferrableCluster
    extra: Mapping[str, Any]
    spark_conn_id: str
    ckpt_conn_id: str | None
    poll_interval: float
    status_interval: float

    def find_earlier_driver(
        self, context: Any, root: str | None, job_id: str | None, retries: int
    ) -> EarlierDriver | None:
        """Return the last driver that an earlier try of the task submitted, or None if no such driver is known."""
        store, ti, clear_number = context["task_state_store"], context["ti"], context["dag_run"].clear_number
        before = Pointer.from_json(store.get(KEY))
        cleared = before is None or was_cleared(before, ti, retries, clear_number)
        hook = CheckpointHook(self.ckpt_conn_id, root=before.root if before else root)
        if before is None:
            default_id = check_job_id(own_job_id(ti) if job_id is None else job_id)
            before = Pointer(default_id, hook.root_uri, ti.try_number, ti.max_tries, clear_number=clear_number)
        submission = before.submission or self._journaled(hook.client(before.job_id), own_job_id(ti))
        if submission is None:
            return None
        status = status_of(submission.cluster, self.extra, kerberos=submission.kerberos)
        watch = DriverWatch(hook, before.job_id, submission, status)
        verdict = watch.poll(asks_cluster=True)
        pointer = replace(before, submission=watch.submission, application_id=watch.submission.application_id)
        return EarlierDriver(pointer, verdict, cleared)

    def _journaled(self, client: JobClient, own_id: str) -> Submission | None:
        """Return the submission of the driver that has the job, from the journal.

        None unless a try of this task submitted the driver, to this kind of cluster. The task state store may lack the
        submission: Airflow deletes the store after 30 days, and an earlier try need not have been deferrable.
        """
        state = client.read_state()
        application_id = state.worker.application_id
        if not (state.is_held and is_of_task(state, own_id)) or state.attempt is None:
            return None
        if application_id is None or not self.cluster.is_own_id(application_id):
            return None
        submission = self.cluster.submission(state.attempt, state.epoch - 1)
        return replace(submission, application_id=application_id, is_submitted=True, is_seen=True)

    def submitted(self, submission: Submission, application_id: str | None) -> Submission:
        """Return ``submission`` with the application id, after a successful spark-submit.

        The method polls the cluster once. If the cluster reports the application, a later report without the
        application means that the driver has ended.
        """
        submission = replace(submission, application_id=application_id, is_submitted=True)
        report = self.cluster.status.report(submission)
        if report.state not in (ApplicationState.RUNNING, ApplicationState.ENDED):
            return submission
        return replace(submission, application_id=application_id or report.application_id, is_seen=True)

    def trigger(self, pointer: Pointer, *, leaving: bool = False) -> SparkApplicationTrigger:
        """Return the trigger that waits for the driver. ``leaving`` is True if the driver must leave the job."""
        submission = {} if pointer.submission is None else pointer.submission.to_json()
        return SparkApplicationTrigger(
            job_id=pointer.job_id,
            submission=submission,
            spark_conn_id=self.spark_conn_id,
            ckpt_conn_id=self.ckpt_conn_id,
            root=pointer.root,
            leaving=leaving,
            poll_interval=self.poll_interval,
            status_interval=self.status_interval,
        )


def ask_to_leave(pointer: Pointer, ckpt_conn_id: str | None, warn: Callable[..., None]) -> None:
    """Ask the driver of a deferred task to leave the job. Call ``warn`` if that fails or no driver has the job."""
    if pointer.submission is None:
        return
    hook = CheckpointHook(ckpt_conn_id, root=pointer.root)
    watch = DriverWatch(hook, pointer.job_id, pointer.submission, NotAsked("it is asked to leave"))
    try:
        if not watch.ask_to_leave(watch.state()):
            warn("Job %s: no driver has the job, so none was asked to leave", pointer.job_id)
    except CkptError as error:
        warn("Could not ask the driver of job %s to leave: %s", pointer.job_id, error)
