"""Polls of a job: whose it is, how far it is, and whether a driver runs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.job_of_task import FoundJob
from airflow_provider_ckpt.journal.events import CheckpointTriggered, JobCreated
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.condition import CheckpointCondition
from airflow_provider_ckpt.triggers.job_poll import JobPoll
from tests.airflow.driver_journal import complete, end, start_driver

Journals = Callable[[str], Journal]
GONE = replace(identify(), started="1")
"""Driver of this host and boot whose process id belongs to another process by now."""


class Task:
    """Task of the Dag run with Airflow's answers about it."""

    task_id = "orders"

    def __init__(self, job_id: str | None, state: str | None) -> None:
        self.found = FoundJob(job_id, state)
        self.errors: list[Exception] = []

    def find(self) -> FoundJob:
        if self.errors:
            raise self.errors.pop(0)
        return self.found


@pytest.fixture
def make(root: Storage) -> Callable[..., JobPoll]:
    def build(
        task: Any = None,
        stalled_after: float | None = None,
        max_checkpoint_age: float | None = None,
        **condition: Any,
    ) -> JobPoll:
        return JobPoll(
            CheckpointHook(root=root.uri),
            CheckpointCondition(**{"job_id": "orders", **condition}),
            interval=60,
            task=task,
            stalled_after=stalled_after,
            max_checkpoint_age=max_checkpoint_age,
        )

    return build


def streaming(journal: Journal, worker: Worker) -> Journal:
    journal.claim("t1", worker, 1.0)
    journal.write(
        JobCreated("orders", JobGraph((), ()), "streaming", SubmittedOptions({"checkpoint_interval": 30.0}), 1.0)
    )
    return start_driver(journal)


def outcomes(look: JobPoll, count: int) -> list[str]:
    return [look().outcome for _ in range(count)]


def test_a_job_without_a_driver_fails_the_wait_after_15_minutes(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", GONE, 1.0)
    look = make()
    assert outcomes(look, 15) == ["wait"] * 15  # 14 polls a minute apart that saw nothing new
    verdict = look()
    assert verdict.outcome == "failed"
    assert "nothing was journaled for 900 s (driver is gone)" in verdict.message


def test_a_new_journal_entry_restarts_the_stall_limit(make: Any, journal: Journals) -> None:
    writer = journal("orders")
    writer.claim("t1", GONE, 1.0)
    look = make()
    outcomes(look, 15)
    writer.write(CheckpointTriggered(1, 2.0))
    assert outcomes(look, 15) == ["wait"] * 15
    assert look().outcome == "failed"


def test_a_live_driver_never_stalls(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", identify(), 1.0)
    assert outcomes(make(stalled_after=60), 40) == ["wait"] * 40


def test_wait_for_restart_waits_for_a_dead_driver(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", GONE, 1.0)
    assert outcomes(make(wait_for_restart=True), 40) == ["wait"] * 40


def test_stalled_after_sets_the_stall_limit(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", Worker(host="elsewhere"), 1.0)
    assert outcomes(make(stalled_after=120), 3) == ["wait", "wait", "failed"]


def test_a_batch_job_on_another_host_never_stalls(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", Worker(host="elsewhere", pid=os.getpid()), 1.0)
    assert outcomes(make(), 100) == ["wait"] * 100


def test_a_cleared_task_is_not_judged_by_its_earlier_job(make: Any, journal: Journals) -> None:
    writer = start_driver(journal("orders"))
    complete(writer, 1)
    end(writer, "FINISHED")
    task = Task(None, "queued")
    look = make(task, job_id="")
    assert look().outcome == "wait"
    task.found = FoundJob("orders~g1", "running")
    assert look().message == "Job orders~g1 has not started yet"
    second = start_driver(journal("orders~g1"))
    assert look().outcome == "wait"
    complete(second, 1)
    end(second, "FINISHED")
    assert look().result == {"job_id": "orders~g1", "status": "FINISHED", "checkpoint": 1, "released": 1}


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped"])
def test_a_task_that_ended_without_success_fails_the_wait(make: Any, journal: Journals, state: str) -> None:
    start_driver(journal("orders"))
    verdict = make(Task("orders", state), job_id="")()
    assert verdict.outcome == "failed"
    assert f"Task orders is {state}. Job orders is RUNNING" in verdict.message
    assert make(Task(None, state), job_id="")().outcome == "failed"
    assert make(Task("orders", state), job_id="", wait_for_restart=True)().outcome == "wait"


def test_a_checkpoint_that_a_failed_task_reached_counts(make: Any, journal: Journals) -> None:
    complete(start_driver(journal("orders")), 1, 2)
    assert make(Task("orders", "failed"), job_id="", checkpoint=2)().outcome == "reached"


def test_a_job_whose_task_is_active_never_stalls(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", GONE, 1.0)
    assert outcomes(make(Task("orders", "up_for_retry"), job_id="", stalled_after=60), 40) == ["wait"] * 40
    assert outcomes(make(Task("orders", "success"), job_id="", stalled_after=60), 2) == ["wait", "failed"]


def test_a_stopped_job_of_a_successful_task_fails_the_wait(make: Any, journal: Journals) -> None:
    """The Dag run used to wait 15 minutes.

    With ``max_active_runs=1`` it blocked the next one, which would resume the job.
    """
    writer = start_driver(journal("orders"))
    complete(writer, 1)
    end(writer, "STOPPED")
    verdict = make(Task("orders", "success"), job_id="")()
    assert verdict.outcome == "failed"
    assert "Task orders succeeded, so it resumes nothing. Job orders is STOPPED" in verdict.message
    assert make(Task("orders", "success"), job_id="", checkpoint=1)().outcome == "reached"
    assert make(Task("orders", "success"), job_id="", wait_for_restart=True)().outcome == "wait"
    assert make(Task("orders", "up_for_retry"), job_id="")().outcome == "wait"


def test_a_task_that_runs_no_job_is_refused(make: Any) -> None:
    assert "runs no job" in make(Task(None, "success"), job_id="")().message


def test_next_is_a_checkpoint_triggered_after_the_first_poll(make: Any, journal: Journals) -> None:
    writer = start_driver(journal("orders"))
    complete(writer, 1)
    writer.write(CheckpointTriggered(2, 2.0))
    look = make(checkpoint="next")
    assert look().outcome == "wait"
    complete(writer, 2)
    assert look().outcome == "wait", "2 was under way before"
    complete(writer, 3)
    assert look().outcome == "reached"


def test_next_of_a_job_that_has_not_started_is_its_first_checkpoint(make: Any, journal: Journals) -> None:
    look = make(checkpoint="next")
    assert look().outcome == "wait"
    complete(start_driver(journal("orders")), 1)
    assert look().outcome == "reached"


def test_next_of_a_finished_job_fails_the_wait(make: Any, journal: Journals) -> None:
    writer = start_driver(journal("orders"))
    complete(writer, 4)
    end(writer, "FINISHED")
    assert "will not reach checkpoint 5" in make(checkpoint="next")().message


def test_a_stopped_job_without_a_driver_fails_the_wait_after_the_limit(make: Any, journal: Journals) -> None:
    end(start_driver(journal("orders")), "STOPPED")
    assert outcomes(make(stalled_after=120), 3) == ["wait", "wait", "failed"]


def test_a_job_without_releases_exceeds_max_checkpoint_age(make: Any, journal: Journals) -> None:
    """The job writes its journal and its driver lives, so no other check would notice."""
    writer = streaming(journal("orders"), identify())
    complete(writer, 1)
    look = make(max_checkpoint_age=180)
    for number in (2, 3, 4):
        assert look().outcome == "wait"
        writer.write(CheckpointTriggered(number, 2.0))
    verdict = look()
    assert verdict.outcome == "failed"
    assert verdict.message == (
        "No checkpoint was released for 180 s (max_checkpoint_age). Job orders is RUNNING: checkpoint 1 completed, "
        "1 released. Waiting for the final checkpoint (released)"
    )


def test_a_job_with_recent_releases_passes_max_checkpoint_age(make: Any, journal: Journals) -> None:
    writer = streaming(journal("orders"), GONE)
    look = make(max_checkpoint_age=120)
    for number in range(1, 9):
        complete(writer, number)
        assert outcomes(look, 2) == ["wait", "wait"]
    assert look().outcome == "failed"


def test_a_job_that_never_starts_exceeds_max_checkpoint_age(make: Any, journal: Journals) -> None:
    look = make(max_checkpoint_age=120, wait_for_restart=True)
    assert outcomes(look, 3) == ["wait", "wait", "failed"]


def test_max_checkpoint_age_does_not_apply_before_the_task_starts(make: Any) -> None:
    assert outcomes(make(Task(None, "queued"), job_id="", max_checkpoint_age=60), 40) == ["wait"] * 40


def test_max_checkpoint_age_is_refused_for_a_batch_job(make: Any, journal: Journals) -> None:
    writer = journal("orders")
    writer.claim("t1", identify(), 1.0)
    writer.write(JobCreated("orders", JobGraph((), ()), "batch", SubmittedOptions({}), 1.0))
    verdict = make(max_checkpoint_age=60)()
    assert (verdict.outcome, "leave max_checkpoint_age out" in verdict.message) == ("failed", True)


@pytest.mark.parametrize(
    "error",
    [AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR)), AirflowException("503"), EOFError()],
    ids=lambda error: type(error).__name__,
)
def test_the_wait_continues_while_airflow_does_not_answer(make: Any, journal: Journals, error: Exception) -> None:
    complete(start_driver(journal("orders")), 1)
    task = Task("orders", "running")
    task.errors = [error]
    poll = make(task, checkpoint=1)
    verdict = poll()
    assert verdict.outcome == "wait"
    assert type(error).__name__ in verdict.message
    assert poll().outcome == "reached"
