"""Trigger of a deferred task. The journal and the REST API are real. Airflow's answers and the clock are fakes."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_ckpt.hooks.application import Submission
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import StorageDeniedError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.base import SETTLING
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.spark_application import SparkApplicationTrigger
from tests.airflow.cluster_api import YARN_ID, ClusterApi, app
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import ScriptedClock

SUBMITTED = Submission("yarn", "ckpt-1", "t1", 0, application_id=YARN_ID, is_submitted=True, is_seen=True)


@pytest.fixture
def rm(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    with ClusterApi().serving() as api:
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": api.url}
        connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        yield api


@pytest.fixture
def make(root: Storage) -> Callable[..., SparkApplicationTrigger]:
    def build(clock: ScriptedClock, **arguments: Any) -> SparkApplicationTrigger:
        given: dict[str, Any] = {
            "job_id": "orders",
            "submission": SUBMITTED.to_json(),
            "spark_conn_id": "spark_default",
            "ckpt_conn_id": "ckpt_default",
            "root": root.uri,
            "poll_interval": 10.0,
            "status_interval": 20.0,
            **arguments,
        }
        made = SparkApplicationTrigger(**given)
        made._sleep = clock.sleep  # type: ignore[assignment]
        return made

    return build


def event_of(trigger: SparkApplicationTrigger) -> dict[str, Any]:
    async def first() -> Any:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("the trigger ended without an event")

    return json.loads(json.dumps(asyncio.run(first())))  # type: ignore[no-any-return]


def test_the_event_is_sent_when_the_job_has_ended(make: Any, rm: ClusterApi, journal: Callable[[str], Journal]) -> None:
    writer = start_driver(journal("orders"))
    clock = ScriptedClock(lambda: complete(writer, 1), lambda: end(writer, "FINISHED"))
    event = event_of(make(clock))
    assert event["outcome"] == "succeeded"
    assert event["result"]["released"] == 1
    assert clock.slept == [SETTLING, 10.0, 10.0]
    assert rm.asked == [], "the journal grew"


def test_the_trigger_waits_before_its_event_even_if_the_job_has_ended(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    """If an event comes before Airflow has stored the deferral, it spends a try."""
    end(start_driver(journal("orders")), "STOPPED")
    clock = ScriptedClock()
    assert event_of(make(clock))["outcome"] == "succeeded"
    assert clock.slept == [SETTLING] == [12.0]


def test_a_dead_driver_is_detected_by_polling_the_cluster(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    start_driver(journal("orders"))
    rm.answer({"app": app("FAILED", "FAILED", "exitCode: 137")})
    clock = ScriptedClock(lambda: None, lambda: None, lambda: None)
    event = event_of(make(clock))
    assert event["outcome"] == "retry"
    assert "exitCode: 137" in event["message"]
    assert clock.slept == [SETTLING, 10.0, 10.0], "asked after 20 s"


def test_a_cluster_that_does_not_answer_does_not_end_the_wait(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    writer = start_driver(journal("orders"))
    rm.answer(b"", 503)
    clock = ScriptedClock(*[lambda: None] * 6, lambda: end(writer, "FINISHED"))
    assert event_of(make(clock))["outcome"] == "succeeded"
    assert len(rm.asked) == 3


@pytest.mark.parametrize("connection", [None, {"conn_type": "spark", "host": "yarn"}])
def test_a_trigger_without_a_cluster_polls_only_the_journal(
    make: Any,
    journal: Callable[[str], Journal],
    monkeypatch: pytest.MonkeyPatch,
    rm: ClusterApi,
    connection: dict[str, str] | None,
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    writer = start_driver(journal("orders"))
    clock = ScriptedClock(*[lambda: None] * 4, lambda: end(writer, "FINISHED"))
    assert event_of(make(clock))["outcome"] == "succeeded"


def test_an_error_of_a_poll_is_retried_without_failing_a_try(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    end(start_driver(journal("orders")), "FINISHED")
    look, failures = DriverWatch.poll, [RuntimeError("a bug of some driver"), OSError(5, "I/O error")]

    def failing(watch: DriverWatch) -> Any:
        if failures:
            raise failures.pop()
        return look(watch)

    monkeypatch.setattr(DriverWatch, "poll", failing)
    assert event_of(make(ScriptedClock(lambda: None, lambda: None)))["outcome"] == "succeeded"


def test_a_permanent_error_of_a_poll_ends_the_wait_with_a_retry(
    make: Any, rm: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(watch: DriverWatch) -> Any:
        raise StorageDeniedError(verb="read", uri="s3://x", reason="403")

    monkeypatch.setattr(DriverWatch, "poll", denied)
    assert event_of(make(ScriptedClock()))["outcome"] == "retry"


def test_a_trigger_that_runs_again_sends_the_same_event_without_secrets(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"storage_options": {"token": "tok-en-2"}}
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", "host": "/x", "extra": extra}))
    rm.answer({"app": app("FAILED", "FAILED", "it was started with tok-en-2")})
    start_driver(journal("orders"))
    path, arguments = make(ScriptedClock()).serialize()
    assert "tok-en-2" not in json.dumps(arguments)
    before = root.files("")
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)
    assert again is SparkApplicationTrigger
    events = [event_of(make(ScriptedClock(lambda: None, lambda: None), **arguments)) for _ in range(2)]
    assert events[0] == events[1]
    assert "it was started with ***" in events[0]["message"]
    assert root.files("") == before, "a trigger writes nothing"


# ---- on_kill


def killed(
    trigger: SparkApplicationTrigger, monkeypatch: pytest.MonkeyPatch, states: Any, *, map_index: int = -1
) -> list[Any]:
    """Kill the trigger, and return the requests to Airflow. ``states``: its answer, or an exception."""
    trigger._task_instance = SimpleNamespace(dag_id="shop", run_id="r1", task_id="orders", map_index=map_index)
    queries: list[Any] = []

    def get(**arguments: Any) -> Any:
        queries.append(arguments)
        answer = states(len(queries)) if callable(states) else states
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get))
    asyncio.run(trigger.on_kill())
    return queries


def requests(root: Storage) -> list[dict[str, Any]]:
    return [json.loads(root.read(f"orders/requests/{name}")) for name in root.list("orders/requests")]


@pytest.mark.parametrize(
    "states",
    [
        {"r1": {"orders": "failed"}},
        {"r1": {"orders": "success"}},
        {"r1": {"orders": "skipped"}},
        {"r1": {"orders": "removed"}},
        {"r1": {}},
        {},
    ],
)
def test_a_kill_of_an_ended_task_requests_a_stop_of_its_driver(
    make: Any,
    rm: ClusterApi,
    root: Storage,
    journal: Callable[[str], Journal],
    monkeypatch: pytest.MonkeyPatch,
    states: Any,
) -> None:
    start_driver(journal("orders"))
    killed(make(ScriptedClock()), monkeypatch, states)
    (request,) = requests(root)
    assert (request["kind"], request["epoch"], request["exit_if_it_fails"]) == ("stop", 1, True)


@pytest.mark.parametrize(
    "state", ["deferred", "scheduled", "queued", "running", "up_for_retry", "up_for_reschedule", "restarting", None]
)
def test_a_kill_of_an_active_or_cleared_task_leaves_its_driver(
    make: Any,
    rm: ClusterApi,
    root: Storage,
    journal: Callable[[str], Journal],
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
) -> None:
    """Airflow also calls on_kill when another triggerer has taken the trigger over."""
    start_driver(journal("orders"))
    queries = killed(make(ScriptedClock()), monkeypatch, {"r1": {"orders": state}})
    assert len(queries) == 1
    assert requests(root) == []


def test_a_kill_of_a_mapped_task_uses_the_state_of_its_own_instance(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(journal("orders"))
    states = {"r1": {"orders_0": "failed", "orders_1": "deferred"}}
    (query,) = killed(make(ScriptedClock()), monkeypatch, states, map_index=1)
    assert requests(root) == []
    assert query == {"dag_id": "shop", "task_ids": ["orders"], "run_ids": ["r1"], "map_index": 1}
    killed(make(ScriptedClock()), monkeypatch, states, map_index=0)
    assert len(requests(root)) == 1


def test_a_kill_without_an_answer_of_airflow_sends_no_request(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(journal("orders"))
    never = ConnectionError("the API server does not answer")
    assert len(killed(make(ScriptedClock(lambda: None)), monkeypatch, never)) == 3
    assert requests(root) == []
    answers = lambda number: never if number < 2 else {"r1": {"orders": "failed"}}  # noqa: E731
    killed(make(ScriptedClock()), monkeypatch, answers)
    assert len(requests(root)) == 1


def test_a_kill_under_dag_test_sends_no_request(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal]
) -> None:
    start_driver(journal("orders"))
    asyncio.run(make(ScriptedClock()).on_kill())
    assert requests(root) == []


@pytest.mark.parametrize("attempt", [None, "of another Dag"])
def test_a_kill_sends_no_request_to_a_foreign_driver(
    make: Any,
    rm: ClusterApi,
    root: Storage,
    journal: Callable[[str], Journal],
    monkeypatch: pytest.MonkeyPatch,
    attempt: str | None,
) -> None:
    if attempt:
        start_driver(journal("orders"), attempt)
    killed(make(ScriptedClock()), monkeypatch, {"r1": {"orders": "failed"}})
    assert root.list("orders/requests") == []
