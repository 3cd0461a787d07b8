"""End of the wait of a finished subtask in a batch job: until then it may have to run again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.triggers.finished_subtask import Reading, ResultRetention
from airflow_provider_ckpt.triggers.group_wait import WaitResult
from tests.airflow.group_journal import JOB_ID, coordinated, deleted, ended, finished, prepared, prepared_from_scratch

RETRY = f"{JOB_ID}~t2.coordinate"


class Wait:
    """Wait of ``history/0``, which has finished in deployment 1 according to the journal. The job continues."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.journal = finished(coordinated(prepared(Journal(storage, JOB_ID), mode="batch")), "history/0")
        self.kept = ResultRetention(f"{JOB_ID}~t1.subtask", ["history/0"], 1)

    def over(self, coordinate: str | None = "deferred", answer: int = 1) -> WaitResult | None:
        return self.kept.judge(Reading(self.journal.refresh(), coordinate, answer))


@pytest.fixture
def wait() -> Iterator[Wait]:
    storage = MemoryStorage(f"kept-{uuid.uuid4().hex}")
    yield Wait(storage)
    storage.delete_tree("")


def test_the_wait_continues_while_the_job_runs_or_is_prepared_again(wait: Wait) -> None:
    assert wait.over() is None
    finished(wait.journal, "history/1")
    assert wait.over() is None
    ended(wait.journal, "RESTARTING")
    assert wait.over("up_for_retry") is None
    wait.journal.claim(RETRY, Worker(), 6.0)
    assert wait.over("running") is None


def test_a_deployment_that_keeps_the_result_continues_the_wait(wait: Wait) -> None:
    prepared(ended(wait.journal, "RESTARTING"), RETRY, mode="batch", again=["history/1"])
    assert wait.over() is None
    coordinated(wait.journal, RETRY)
    assert wait.over() is None


def test_a_deployment_that_needs_the_result_again_ends_the_wait(wait: Wait) -> None:
    prepared(ended(wait.journal, "RESTARTING"), RETRY, mode="batch", again=["history/0"])
    assert wait.over() == WaitResult("history/0 has to run again, in the deployment of epoch 3")


def test_a_job_restarted_from_scratch_runs_the_subtask_again(wait: Wait) -> None:
    """``batch_recovery`` is off, so the whole job runs again."""
    prepared_from_scratch(ended(wait.journal, "RESTARTING"), RETRY)
    assert wait.over() == WaitResult("history/0 has to run again, in the deployment of epoch 3")


def test_a_lost_result_of_any_subtask_of_a_vertex_ends_the_wait(wait: Wait) -> None:
    wait.kept = ResultRetention(f"{JOB_ID}~t1.history", ["history/0", "history/1"], 1)
    finished(wait.journal, "history/1")
    assert wait.over() is None
    prepared(ended(wait.journal, "RESTARTING"), RETRY, mode="batch", again=["history/1"])
    assert wait.over() == WaitResult("history/1 has to run again, in the deployment of epoch 3")


def test_an_unjournaled_end_counts_only_in_its_own_deployment(wait: Wait) -> None:
    """Its worker has left without a JobMaster. The next one reads its end in the log."""
    wait.kept = ResultRetention(f"{JOB_ID}~t1.subtask", ["rows/0"], 1)
    assert wait.over() is None
    prepared(ended(wait.journal, "RESTARTING"), RETRY, mode="batch")
    assert wait.over() == WaitResult("rows/0 has to run again, in the deployment of epoch 3")


def test_an_older_deployment_continues_the_wait(wait: Wait) -> None:
    """A shared poll may be older than the deployment."""
    wait.kept = ResultRetention(f"{JOB_ID}~t1.subtask", ["rows/0"], 3)
    assert wait.over() is None


@pytest.mark.parametrize("status", ["FINISHED", "STOPPED", "FAILED"])
def test_the_end_of_the_job_ends_the_wait_whatever_airflow_says(wait: Wait, status: str) -> None:
    ended(wait.journal, status)
    assert wait.over("success") == WaitResult(f"the job is {status}")


@pytest.mark.parametrize(("status", "shown_status"), [("FINISHED", "FINISHED"), ("RESTARTING", "DELETED")])
def test_a_deleted_job_ends_the_wait(wait: Wait, status: str, shown_status: str) -> None:
    """A deleted job that was FINISHED is reported as FINISHED, because its output exists."""
    deleted(ended(wait.journal, status))
    assert wait.over() == WaitResult(f"the job is {shown_status}")


def test_a_job_taken_over_by_another_dag_run_ends_the_wait(wait: Wait) -> None:
    prepared(wait.journal, "shop.orders.r2~t1.plan", mode="batch")
    assert wait.over() == WaitResult("shop.orders.r2~t1.plan has the job")


def test_a_manual_jobmaster_or_release_continues_the_wait(wait: Wait) -> None:
    coordinated(wait.journal, "a `ckpt master` by hand")
    assert wait.over() is None
    ended(wait.journal, "RESTARTING")
    wait.journal.claim(f"{RETRY}~release", Worker(), 6.0, releases_only=True)
    assert wait.over() is None


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped", "removed", "success"])
def test_an_ended_coordinate_task_ends_the_wait_at_the_second_answer(wait: Wait, state: str) -> None:
    """A task that was just marked may be about to stop the job, which is a good end."""
    assert [wait.over(state, 4) for _ in range(9)] == [None] * 9, "one answer"
    over = wait.over(state, 5)
    assert over is not None
    assert over.is_alone
    assert over.reason.endswith(f"is {state}")
    assert WaitResult.from_json(over.to_json()) == over


def test_a_coordinate_task_that_was_cleared_continues_the_wait(wait: Wait) -> None:
    assert wait.over("failed", 1) is None
    assert wait.over("scheduled", 2) is None
    assert wait.over("failed", 3) is None


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "deferred", "up_for_retry", "restarting"])
def test_an_active_coordinate_task_continues_the_wait(wait: Wait, state: str | None) -> None:
    assert [wait.over(state, number) for number in range(9)] == [None] * 9


@pytest.mark.parametrize("state", [JobState(JOB_ID), JobState(JOB_ID, epoch=3, deployment=3, damage=["torn"])], ids=str)
def test_an_unreadable_journal_continues_the_wait(wait: Wait, state: JobState) -> None:
    """Its root may not be mounted. If the journal is damaged, its readable part is outdated."""
    assert wait.kept.judge(Reading(state, "deferred", 1)) is None
    wait.kept.judge(Reading(state, "failed", 2))
    over = wait.kept.judge(Reading(state, "failed", 3))
    assert over is not None
    assert over.is_alone
