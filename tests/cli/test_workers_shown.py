"""Jobs with workers in `ckpt show`."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.cli.show import summary
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from tests.journal.samples import WORKER, of_deployment, of_rescaled_workers, of_rescaling


def test_show_lists_the_subtasks_that_workers_must_run() -> None:
    state = JobState("orders")
    for event in of_rescaling():
        event.apply(state)
    assert dict(summary(state))["workers"] is None
    for event in of_deployment():
        event.apply(state)
    ev.SubtaskFinished(SubtaskId("history/2"), "0007-01-ab", 133.0).apply(state)
    left = ["history/0", "history/1", "history/3"]
    assert dict(summary(state))["workers"] == f"prepared in epoch 1, to run: {', '.join(left)}"
    view = job_view(state, None)
    assert (view["deployment"], view["unfinished_subtasks"]) == (1, left)


def test_show_prints_hosted_subtasks_once_they_are_added() -> None:
    state, shown = JobState("orders"), []
    for event in (*of_deployment(), *of_rescaled_workers()[:2], *of_deployment()):
        event.apply(state)
        shown.append(dict(summary(state))["workers"])
    assert shown[-1] == "prepared in epoch 1, to run: history/0, history/1"
    ev.SubtasksAdded((SubtaskId("history/2"), SubtaskId("history/3")), 135.0).apply(state)
    beside = "history/0 (with history/2), history/1 (with history/3)"
    assert dict(summary(state))["workers"] == f"prepared in epoch 1, to run: {beside}"


def test_a_prepared_job_without_a_jobmaster_does_not_run() -> None:
    """The status of such a job used to be missing."""
    state = JobState("orders", epoch=1, deployment=1)
    gone = replace(identify(), started="0")
    for worker in (Worker(), gone, identify()):
        status = dict(summary(replace(state, worker=worker)))["status"]
        assert status == "not RUNNING yet (planned; no JobMaster has started)"
    status = dict(summary(replace(state, worker=gone, epoch=2)))["status"]
    assert status == "not RUNNING yet (its JobMaster is gone; workers that live continue until the next one)"


def test_a_failed_run_is_shown_as_retryable() -> None:
    """The process has ended, so nothing restarts by itself."""
    state = JobState("orders", epoch=1, worker=replace(identify(), started="0"), status=JobStatus.RESTARTING)
    assert dict(summary(state))["status"] == "RESTARTING (the run failed and can be retried)"
    assert job_view(state, False)["status_note"] == "the run failed and can be retried"
    assert job_view(replace(state, status=JobStatus.STOPPED), False)["status_note"] is None


def test_a_job_with_live_workers_is_running_without_a_jobmaster() -> None:
    """Workers publish before a new JobMaster knows them, and even if it never does."""
    state = JobState("orders")
    for event in (*of_deployment(), ev.StatusChanged(JobStatus.CREATED, 139.0)):
        event.apply(state)
    claims = ev.EpochClaimed(state.epoch + 1, "try", WORKER, 140.0, deployment=state.deployment)
    claims.apply(state)
    assert dict(summary(state))["status"] == "CREATED", "it never ran"
    ev.StatusChanged(JobStatus.RUNNING, 141.0).apply(state)
    for number in (2, 3):
        ev.EpochClaimed(state.epoch + number, "try", WORKER, 142.0, deployment=state.deployment).apply(state)
        assert str(dict(summary(state))["status"]).startswith("RUNNING")
    ev.EpochClaimed(state.epoch + 1, "next", WORKER, 143.0).apply(state)
    assert str(dict(summary(state))["status"]).startswith("CREATED"), "the next run, of another deployment"


def test_an_ended_or_overtaken_job_has_no_workers() -> None:
    for last in (ev.StatusChanged(JobStatus.STOPPED, 140.0), ev.EpochClaimed(9, "try", WORKER, 140.0)):
        state = JobState("orders")
        for event in (*of_rescaling(), *of_deployment(), last):
            event.apply(state)
        assert dict(summary(state))["workers"] is None
        assert job_view(state, None)["deployment"] is None
