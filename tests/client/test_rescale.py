"""Requests for another number of subtasks, sent from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.errors import RequestRefusedError, RequestUnansweredError
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.opening import open_storage
from tests.client.running_job import client, write_running_job
from tests.support.definitions import STREAMING

HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)
GRAPH = JobGraph((HISTORY, JobVertex("daily", ("daily",), (), (), (), bounded=False)), ())


@pytest.fixture
def driver(tmp_path: Path) -> Journal:
    return write_running_job(tmp_path, ev.PlanRecorded(GRAPH, {}, 1.0, STREAMING))


def test_a_request_reaches_the_driver(driver: Journal, tmp_path: Path) -> None:
    asked = client(tmp_path).rescale("history", 8)
    (pending,) = pending_requests(open_storage(str(tmp_path)), "orders", 1, ())
    changes = {"history": VertexSettings(parallelism=8)}
    assert pending == asked == ReconfigureRequest(changes, name=asked.name, epoch=1, at=asked.at)


@pytest.mark.parametrize(("uid", "parallelism"), [("daily", 2), ("nobody", 2), ("history", 0), ("history", True)])
def test_an_impossible_request_is_refused_before_it_is_written(
    driver: Journal, tmp_path: Path, uid: str, parallelism: int
) -> None:
    with pytest.raises(RequestRefusedError, match=r"can be rescaled, to 1 or more: history") as refused:
        client(tmp_path).rescale(uid, parallelism)
    assert refused.value.data["uid"] == uid
    assert pending_requests(open_storage(str(tmp_path)), "orders", 1, ()) == []


def test_a_job_without_a_driver_refuses_the_request(driver: Journal, tmp_path: Path) -> None:
    driver.write(ev.StatusChanged(JobStatus.STOPPED, 2.0))
    with pytest.raises(RequestRefusedError, match="cannot be asked to rescale: its status is STOPPED"):
        client(tmp_path).rescale("history", 8)


@pytest.mark.parametrize(
    ("outcome", "served"),
    [("completed: history is read by 8", True), ("refused: all splits of history are assigned", False)],
)
def test_the_answer_comes_while_the_job_runs(driver: Journal, tmp_path: Path, outcome: str, served: bool) -> None:
    job = client(tmp_path)
    asked = job.rescale("history", 8)
    driver.write(ev.RequestAnswered(asked.name, "reconfigure", RequestOutcome.parse("accepted"), 2.0))
    driver.write(ev.RequestAnswered(asked.name, "reconfigure", RequestOutcome.parse(outcome), 3.0))
    driver.flush()
    answer = job.answer(asked, 5.0)
    assert (str(answer.outcome), answer.is_served, answer.state.status) == (outcome, served, "RUNNING")


def test_a_wait_timeout_names_the_awaited_rescale(driver: Journal, tmp_path: Path) -> None:
    job = client(tmp_path)
    asked = job.rescale("history", 8)
    with pytest.raises(
        RequestUnansweredError, match="'history' of job 'orders' is not read by 8 subtasks"
    ) as unanswered:
        job.answer(asked, 0.01)
    assert unanswered.value.retryable


def test_a_rescale_to_the_declared_number_counts_as_served(driver: Journal, tmp_path: Path) -> None:
    """The journal of a later run does not record a number that equals the declared one."""
    job = client(tmp_path)
    asked = job.rescale("history", 4)
    after = Journal(open_storage(str(tmp_path)), "orders")
    after.claim("t2", identify(), 3.0)
    definition = JobDefinition("streaming", {"history": SourceDefinition(True, parallelism=4)}, {}, {})
    after.write(ev.PlanRecorded(GRAPH.rescaled({"history": 4}), {}, 3.0, definition))
    assert job.answer(asked, 5.0).is_served


@pytest.mark.parametrize("decided", [True, False])
def test_a_lost_driver_has_served_a_rescale_that_it_decided(driver: Journal, tmp_path: Path, decided: bool) -> None:
    job = client(tmp_path)
    asked = job.rescale("history", 8)
    graph = GRAPH.rescaled({"history": 8})
    if decided:
        driver.write(ev.Reconfigured(1, {}, 2.0, ev.GraphChange(graph, {"history": 8}), request=asked.name))
    after = Journal(open_storage(str(tmp_path)), "orders")
    after.claim("t2", identify(), 3.0)
    after.write(ev.PlanRecorded(graph if decided else GRAPH, {}, 3.0, STREAMING, {"history": 8} if decided else {}))
    if decided:
        answer = job.answer(asked, 5.0)
        assert (answer.outcome, answer.is_served) == (None, True)
    else:
        with pytest.raises(RequestUnansweredError, match="asked to rescale"):
            job.answer(asked, 5.0)
