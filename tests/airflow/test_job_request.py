"""Tasks that stop and drain a job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import ReconfigurationFailedError
from airflow_provider_ckpt.journal.events import PlanRecorded, Reconfigured, RequestAnswered
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import DrainRequest, ReconfigureRequest, UpgradeRequest
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.operators import request_operators
from airflow_provider_ckpt.operators.request_operators import (
    CheckpointedJobDrainOperator,
    CheckpointedJobReconfigureOperator,
    CheckpointedJobRescaleOperator,
    CheckpointedJobStopOperator,
    CheckpointedJobUpgradeOperator,
    JobRequestOperator,
)
from airflow_provider_ckpt.storage.errors import InvalidJobIdError
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import StateStore, context
from tests.journal.samples import plan_with_timers
from tests.support.definitions import STREAMING

KINDS = {"stop": CheckpointedJobStopOperator, "drain": CheckpointedJobDrainOperator}
JobOf = Callable[[str], Journal]


def operator(kind: str, root: Storage, **arguments: object) -> JobRequestOperator:
    given: dict[str, Any] = {"task_id": "ask", "job_id": "orders", "root": root.uri, "ckpt_conn_id": None, **arguments}
    made: JobRequestOperator = KINDS[kind](**given)
    return made


def ask(task: JobRequestOperator) -> dict[str, object]:
    return task.execute(context(StateStore()))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_invalid_job_id_is_refused_when_the_dag_is_parsed(kind: str) -> None:
    with pytest.raises(InvalidJobIdError, match="a/b"):
        KINDS[kind](task_id="ask", job_id="a/b")
    KINDS[kind](task_id="ask", job_id="{{ params.job / 2 }}")


@contextmanager
def answering(job: Journal, root: Storage, outcome: RequestOutcome, status: str | None) -> Iterator[None]:
    """Run a fake driver next to the task. It answers the first request."""
    over = threading.Event()

    def answer() -> None:
        while not (requests := pending_requests(root, "orders", 1, ())):
            if over.wait(0.01):
                return
        job.write(RequestAnswered(requests[0].name, requests[0].kind, outcome, 5.0))
        if status is not None:
            end(job, status)
        job.flush()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("kind", "status"), [("stop", "STOPPED"), ("drain", "FINISHED")])
def test_the_task_waits_until_the_job_has_stopped_or_drained(
    root: Storage, journal: JobOf, kind: str, status: str
) -> None:
    job = start_driver(journal("orders"))
    complete(job, 1, 2)
    with answering(job, root, RequestOutcome.completed("it is so"), status):
        assert ask(operator(kind, root, timeout="1m")) == {
            "job_id": "orders",
            "status": status,
            "checkpoint": 2,
            "released": 2,
        }


def test_a_drain_of_timers_fails_permanently_without_discard_timers(root: Storage, journal: JobOf) -> None:
    job = start_driver(journal("orders"))
    job.write(plan_with_timers())
    job.flush()
    with pytest.raises(AirflowFailException, match="discard_timers"):
        ask(operator("drain", root, timeout="1m"))
    assert pending_requests(root, "orders", 1, ()) == []
    with answering(job, root, RequestOutcome.completed("it is so"), "FINISHED"):
        ask(operator("drain", root, timeout="1m", at_once=True, discard_timers=True))
    (request,) = pending_requests(root, "orders", 1, ())
    assert isinstance(request, DrainRequest)
    assert request.at_once


def test_a_failed_stop_fails_the_task_retryably(root: Storage, journal: JobOf) -> None:
    job = start_driver(journal("orders"))
    refused = RequestOutcome.failed("no savepoint within 60 s; the job continues")
    with (
        answering(job, root, refused, None),
        pytest.raises(AirflowException, match="stop failed: no savepoint") as raised,
    ):
        ask(operator("stop", root, timeout="1m"))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_drain_fails_if_the_job_was_stopped_instead(root: Storage, journal: JobOf) -> None:
    job = start_driver(journal("orders"))
    stopped = RequestOutcome.failed("the job was stopped before it was drained")
    with answering(job, root, stopped, "STOPPED"), pytest.raises(AirflowException, match="drain failed: the job was"):
        ask(operator("drain", root, timeout="1m"))


def test_a_timeout_fails_the_task_retryably(root: Storage, journal: JobOf) -> None:
    start_driver(journal("orders")).flush()
    with pytest.raises(AirflowException, match=r"has not ended within 0\.01 s") as raised:
        ask(operator("stop", root, timeout=0.01))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_task_that_does_not_wait_leaves_its_request_pending(root: Storage, journal: JobOf) -> None:
    start_driver(journal("orders")).flush()
    assert ask(operator("drain", root, wait=False))["status"] == "RUNNING"
    assert [request.kind for request in pending_requests(root, "orders", 1, ())] == ["drain"]


@pytest.mark.parametrize(("kind", "status"), [("stop", "STOPPED"), ("stop", "FINISHED"), ("drain", "FINISHED")])
def test_a_job_that_has_already_ended_that_way_gets_no_request(
    root: Storage, journal: JobOf, kind: str, status: str
) -> None:
    job = start_driver(journal("orders"))
    end(job, status)
    assert ask(operator(kind, root))["status"] == status
    assert pending_requests(root, "orders", 1, ()) == []


@pytest.mark.parametrize(("kind", "status"), [("drain", "STOPPED"), ("stop", "FAILED"), ("stop", "RESTARTING")])
def test_a_request_to_a_job_without_a_driver_fails_permanently(
    root: Storage, journal: JobOf, kind: str, status: str
) -> None:
    """A success would be wrong, because a STOPPED job has not been drained."""
    job = start_driver(journal("orders"))
    end(job, status)
    with pytest.raises(AirflowFailException, match=f"cannot be asked to {kind}: its status is {status}"):
        ask(operator(kind, root))


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_for_an_unknown_job_names_the_existing_jobs(root: Storage, journal: JobOf, kind: str) -> None:
    start_driver(journal("visits")).flush()
    with pytest.raises(AirflowFailException, match=r"there is no job 'orders'.*visits"):
        ask(operator(kind, root))


@pytest.mark.slow
def test_the_job_id_is_rendered_in_a_dag_run(
    run: Callable[..., Any], root: Storage, journal: JobOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(start_driver(journal("orders")), "STOPPED")
    with DAG("deploy", schedule=None, params={"job": "orders"}) as dag:
        CheckpointedJobStopOperator(task_id="stop", job_id="{{ params.job }}", root=root.uri)
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["stop"].xcom_pull(task_ids="stop")["status"] == "STOPPED"


# ---- rescale


HISTORY = JobVertex("history", ("history",), ("history",), ("history",), (), bounded=True, parallelism=2, splits=True)


def rescale(root: Storage, parallelism: int | str = 8, source: str = "history") -> CheckpointedJobRescaleOperator:
    return CheckpointedJobRescaleOperator(
        task_id="ask", job_id="orders", source=source, parallelism=parallelism, root=root.uri, timeout="1m"
    )


def by_split(journal: JobOf) -> Journal:
    job = start_driver(journal("orders"))
    job.write(PlanRecorded(JobGraph((HISTORY,), ()), {}, 5.0, STREAMING))
    return job


@pytest.mark.parametrize("parallelism", [8, "8"])
def test_the_task_waits_until_the_rescale_has_completed(root: Storage, journal: JobOf, parallelism: int | str) -> None:
    job = by_split(journal)
    with answering(job, root, RequestOutcome.completed("history is read by 8"), None):
        assert ask(rescale(root, parallelism))["status"] == "RUNNING"


def test_a_refused_rescale_fails_the_task(root: Storage, journal: JobOf) -> None:
    job = by_split(journal)
    refused = RequestOutcome.refused("all splits of history are assigned")
    with answering(job, root, refused, None), pytest.raises(AirflowException, match="rescale refused: all splits"):
        ask(rescale(root))


@pytest.mark.parametrize("parallelism", ["many", 0, 2**31])
def test_an_impossible_rescale_fails_permanently(root: Storage, journal: JobOf, parallelism: int | str) -> None:
    by_split(journal)
    with pytest.raises(AirflowFailException, match="can be rescaled, to 1 or more: history"):
        ask(rescale(root, 4, "live"))
    task = rescale(root, "{{ params.subtasks }}", "history")
    task.parallelism = parallelism
    with pytest.raises(AirflowFailException, match="a whole number from 1 to 2147483647"):
        ask(task)


# ---- reconfigure


DAILY = JobVertex("daily", ("live", "daily"), ("live",), (), (), bounded=False)


def streaming(journal: JobOf) -> Journal:
    job = start_driver(journal("orders"))
    job.write(PlanRecorded(JobGraph((DAILY,), ()), {}, 5.0, STREAMING))
    return job


def reconfigure(root: Storage, **arguments: Any) -> CheckpointedJobReconfigureOperator:
    given = arguments or {"assign_workload": {"daily": {"state_partitions": "16", "trigger_interval": "2s"}}}
    return CheckpointedJobReconfigureOperator(task_id="ask", job_id="orders", root=root.uri, timeout="1m", **given)


CHANGED = {"daily": VertexSettings(state_partitions=16, trigger_interval=2.0)}


def test_the_task_waits_until_the_reconfiguration_has_completed(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    with answering(job, root, RequestOutcome.completed("daily was paused for 1.2 s"), None):
        assert ask(reconfigure(root))["status"] == "RUNNING"
    (request,) = pending_requests(root, "orders", 1, ())
    assert isinstance(request, ReconfigureRequest)
    assert request.changes == CHANGED


def test_a_failed_reconfiguration_fails_the_task_retryably(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    failed = RequestOutcome.failed("daily: it has other columns; the job continues unchanged")
    with answering(job, root, failed, None), pytest.raises(AirflowException, match="it has other columns") as raised:
        ask(reconfigure(root, assign_execution_logic={"daily": "v2.py:job"}))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_retry_of_an_applied_reconfiguration_sends_no_request(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    job.write(Reconfigured(1, CHANGED, 6.0))
    assert ask(reconfigure(root))["status"] == "RUNNING"
    assert pending_requests(root, "orders", 1, ()) == []


def test_new_code_under_the_same_file_name_is_requested_again(root: Storage, journal: JobOf) -> None:
    """The file may have changed, so only the driver can decide."""
    job = streaming(journal)
    job.write(Reconfigured(1, {"daily": VertexSettings(logic={"daily": "v2.py:job"}, digests={"daily": "d"})}, 6.0))
    done = RequestOutcome.completed("nothing had to be changed: the code read for daily already runs")
    with answering(job, root, done, None):
        ask(reconfigure(root, assign_execution_logic={"daily": "v2.py:job"}))
    assert len(pending_requests(root, "orders", 1, ())) == 1


@contextmanager
def answering_each(job: Journal, root: Storage, *answers: Callable[[str], None]) -> Iterator[list[str]]:
    """Run a fake driver next to the task. It passes each new request to the next of ``answers``.

    Yields the list of requests received so far.
    """
    job.flush()
    before = {request.name for request in pending_requests(root, "orders", 1, ())}
    over, came = threading.Event(), list[str]()

    def serve() -> None:
        for answer in answers:
            while not (requests := pending_requests(root, "orders", 1, {*before, *came})):
                if over.wait(0.01):
                    return
            came.append(requests[0].name)
            answer(came[-1])
            job.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield came
    finally:
        over.set()
        thread.join()


def test_a_retry_requests_again_after_the_change_of_an_earlier_try(
    root: Storage, journal: JobOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier try's process died before the answer came."""
    monkeypatch.setattr(request_operators, "PAUSE", 0.01)
    job = streaming(journal)
    job.flush()
    first = CheckpointHook(None, root=root.uri).client("orders").reconfigure(reconfigure(root)._change())

    def write_answer(name: str, outcome: RequestOutcome) -> None:
        job.write(RequestAnswered(name, "reconfigure", outcome, 5.0))

    def refuses(name: str) -> None:
        write_answer(name, RequestOutcome.refused(f"reconfiguration 1 (of daily, request {first.name}) is in progress"))
        write_answer(first.name, RequestOutcome.completed("daily was paused"))

    write_answer(first.name, RequestOutcome(RequestResult.ACCEPTED))
    done = RequestOutcome.completed("nothing had to be changed")
    with answering_each(job, root, refuses, lambda name: write_answer(name, done)) as came:
        assert ask(reconfigure(root))["status"] == "RUNNING"
    assert len(came) == 2


def test_the_task_requests_again_after_the_change_of_a_controller(
    root: Storage, journal: JobOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task cannot wait for a controller's change, because that has no request."""
    monkeypatch.setattr(request_operators, "PAUSE", 0.01)
    job = streaming(journal)

    def answer_with(outcome: RequestOutcome) -> Callable[[str], None]:
        return lambda name: job.write(RequestAnswered(name, "reconfigure", outcome, 5.0))

    busy = RequestOutcome.refused("reconfiguration 1 (of daily, asked for by Autoscaler(daily)) is in progress")
    done = RequestOutcome.completed("daily was paused for 1.2 s")
    with answering_each(job, root, answer_with(busy), answer_with(busy), answer_with(done)) as came:
        assert ask(reconfigure(root))["status"] == "RUNNING"
    assert len(came) == 3


@pytest.mark.slow
def test_the_task_stops_requesting_after_its_timeout(
    root: Storage, journal: JobOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the last refusal, not a missing answer."""
    monkeypatch.setattr(request_operators, "PAUSE", 0.05)
    job = streaming(journal)
    busy = RequestOutcome.refused("reconfiguration 1 (of daily, asked for by Autoscaler(daily)) is in progress")
    task = reconfigure(root)
    task.timeout = 3.0

    def refuses(name: str) -> None:
        job.write(RequestAnswered(name, "reconfigure", busy, 5.0))

    with answering_each(job, root, *[refuses] * 1000) as came:
        with pytest.raises(AirflowException, match="asked for by Autoscaler"):
            ask(task)
    assert len(came) > 1


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        ("assign_workload", {"nobody": {"state_partitions": 4}}),
        ("assign_resources", {"daily": {"executor_memory": "4g"}}),
        ("assign_workload", {"daily": {"state_partitions": "many"}}),
    ],
)
def test_an_impossible_change_fails_permanently(
    root: Storage, journal: JobOf, name: str, rendered: dict[str, Any]
) -> None:
    streaming(journal)
    task = reconfigure(root, **{name: {"daily": "{{ params.change }}"}})
    setattr(task, name, rendered)
    with pytest.raises(AirflowFailException):
        ask(task)


def test_the_hook_sends_the_request_when_the_block_ends(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    hook = CheckpointHook(None, root=root.uri)
    with answering(job, root, RequestOutcome.completed("so it runs"), None), hook.reconfigure("orders") as change:
        change.assign_workload("daily", state_partitions=16, trigger_interval="2s")
        assert pending_requests(root, "orders", 1, ()) == []
    (request,) = pending_requests(root, "orders", 1, ())
    assert isinstance(request, ReconfigureRequest)
    assert request.changes == CHANGED


def test_the_hook_raises_an_error_for_a_refused_reconfiguration(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    refused = RequestOutcome.refused("daily has ended")
    with answering(job, root, refused, None), pytest.raises(ReconfigurationFailedError, match="has ended"):
        with CheckpointHook(None, root=root.uri).reconfigure("orders") as change:
            change.assign_resources("daily", pool_weight=2)


def test_a_failing_block_sends_no_request(root: Storage, journal: JobOf) -> None:
    streaming(journal)
    with pytest.raises(ZeroDivisionError), CheckpointHook(None, root=root.uri).reconfigure("orders") as change:
        change.assign_resources("daily", pool_weight=1 // 0)
    assert pending_requests(root, "orders", 1, ()) == []


def upgrade(root: Storage, **arguments: Any) -> CheckpointedJobUpgradeOperator:
    return CheckpointedJobUpgradeOperator(task_id="ask", job_id="orders", root=root.uri, timeout="1m", **arguments)


def test_the_task_waits_until_the_upgrade_has_completed(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    with answering(job, root, RequestOutcome.completed("the job runs as v2.py:job"), None):
        assert ask(upgrade(root, job="v2.py:job", allow_non_restored_state=True))["status"] == "RUNNING"
    (request,) = pending_requests(root, "orders", 1, ())
    assert request == UpgradeRequest("v2.py:job", True, name=request.name, epoch=1, at=request.at)


def test_a_failed_upgrade_fails_the_task_retryably(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    failed = RequestOutcome.failed("SyntaxError; the job continues unchanged")
    with answering(job, root, failed, None), pytest.raises(AirflowException, match="SyntaxError") as raised:
        ask(upgrade(root))
    assert not isinstance(raised.value, AirflowFailException)


def test_the_hook_upgrades_and_raises_the_cause_of_a_failure(root: Storage, journal: JobOf) -> None:
    job = streaming(journal)
    hook = CheckpointHook(None, root=root.uri)
    failed = RequestOutcome.failed("SyntaxError; the job continues unchanged")
    with answering(job, root, failed, None), pytest.raises(ReconfigurationFailedError, match="SyntaxError"):
        hook.upgrade("orders", "v2.py:job")
    name = hook.upgrade("orders", "v2.py:job", timeout=None)
    assert name in [request.name for request in pending_requests(root, "orders", 1, ())]
