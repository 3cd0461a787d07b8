"""A task whose driver lives on without it: where it was left, and the trigger that waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.application import ApplicationState, NotAsked, Submission
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.deferrable_cluster import DeferrableCluster, status_of
from airflow_provider_ckpt.operators.beginning import is_own, own_job_id
from airflow_provider_ckpt.operators.clearing import was_cleared
from airflow_provider_ckpt.operators.pointer import KEY, Pointer
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.spark_application import SparkApplicationTrigger

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient

LEAST_STATUS_INTERVAL = 60.0
"""Seconds between two questions to the cluster: of hundreds of deferred tasks, each asks for itself."""


@dataclass(frozen=True)
class LookBack:
    """What has become of the driver of an earlier try. ``pointer``: to it; ``cleared``: somebody cleared the task."""

    pointer: Pointer
    verdict: DriverVerdict
    cleared: bool


@dataclass(frozen=True)
class Deferral:
    """``extra``: of the Spark connection. The rest is the Airflow operator's; ``poll_interval`` and
    ``status_interval`` in seconds."""

    cluster: DeferrableCluster
    extra: Mapping[str, Any]
    spark_conn_id: str
    ckpt_conn_id: str | None
    poll_interval: float
    status_interval: float

    def look_back(self, context: Any, root: str | None, job_id: str | None, retries: int) -> LookBack | None:
        """None: no earlier try has left a driver. ``root``, ``job_id``: as given to the operator."""
        store, ti, clear_number = context["task_state_store"], context["ti"], context["dag_run"].clear_number
        before = Pointer.from_json(store.get(KEY))
        cleared = before is None or was_cleared(before, ti, retries, clear_number)
        hook = CheckpointHook(self.ckpt_conn_id, root=before.root if before else root)
        if before is None:
            own = check_job_id(own_job_id(ti) if job_id is None else job_id)
            before = Pointer(own, hook.root_uri, ti.try_number, ti.max_tries, clear_number=clear_number)
        submission = before.submission or self._journaled(hook.client(before.job_id), own_job_id(ti))
        if submission is None:
            return None
        status = status_of(submission.cluster, self.extra, kerberos=submission.kerberos)
        watch = DriverWatch(hook, before.job_id, submission, status)
        verdict = watch.look(asks=True)
        pointer = replace(before, submission=watch.submission, application_id=watch.submission.application_id)
        return LookBack(pointer, verdict, cleared)

    def _journaled(self, client: JobClient, own_id: str) -> Submission | None:
        """Of a driver that a task of this name has submitted, and that has the job, as far as is known, though nobody
        noted how: the pointer is lost (Airflow cleans the task state store up after 30 days), or that try waited."""
        state = client.look()
        number = state.worker.application_id
        if not (state.is_held and is_own(state, own_id)) or state.attempt is None:
            return None
        if number is None or not self.cluster.gives(number):
            return None
        made = self.cluster.submission(state.attempt, state.epoch - 1)
        return replace(made, application_id=number, is_submitted=True, is_seen=True)

    def submitted(self, submission: Submission, application_id: str | None) -> Submission:
        """Behind a spark-submit that ended well: noted, and looked for once, so that later nobody takes a cluster that
        never knew it for one that has forgotten it."""
        submission = replace(submission, application_id=application_id, is_submitted=True)
        report = self.cluster.status.report(submission)
        if report.state not in (ApplicationState.RUNNING, ApplicationState.ENDED):
            return submission
        return replace(submission, application_id=application_id or report.application_id, is_seen=True)

    def trigger(self, pointer: Pointer, *, leaving: bool = False) -> SparkApplicationTrigger:
        """``pointer``: to a submission."""
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
    """Ask the driver that a deferred task waited for, and is not going to wait for any longer."""
    if pointer.submission is None:
        return
    hook = CheckpointHook(ckpt_conn_id, root=pointer.root)
    watch = DriverWatch(hook, pointer.job_id, pointer.submission, NotAsked("it is asked to leave"))
    try:
        if not watch.ask_to_leave(watch.state()):
            warn("Job %s: no driver has it that could be asked to leave", pointer.job_id)
    except CkptError as error:
        warn("Could not ask the driver of job %s to leave: %s", pointer.job_id, error)
