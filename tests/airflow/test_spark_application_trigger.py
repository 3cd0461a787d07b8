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


def test_it_fires_when_the_job_has_ended_and_says_how_far_it_came(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    writer = start_driver(journal("orders"))
    clock = ScriptedClock(lambda: complete(writer, 1), lambda: end(writer, "FINISHED"))
    event = event_of(make(clock))
    assert event["outcome"] == "succeeded"
    assert event["result"]["released"] == 1
    assert clock.slept == [SETTLING, 10.0, 10.0]
    assert rm.asked == [], "the journal grew"


def test_it_waits_before_its_first_event_also_if_the_job_has_ended(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    """If an event comes before Airflow has stored the deferral, it spends a try."""
    end(start_driver(journal("orders")), "STOPPED")
    clock = ScriptedClock()
    assert event_of(make(clock))["outcome"] == "succeeded"
    assert clock.slept == [SETTLING] == [12.0]


def test_a_driver_that_died_is_noticed_by_the_cluster_when_the_journal_stands_still(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    start_driver(journal("orders"))
    rm.answer({"app": app("FAILED", "FAILED", "exitCode: 137")})
    clock = ScriptedClock(lambda: None, lambda: None, lambda: None)
    event = event_of(make(clock))
    assert event["outcome"] == "retry"
    assert "exitCode: 137" in event["message"]
    assert clock.slept == [SETTLING, 10.0, 10.0], "asked after 20 s"


def test_a_cluster_that_does_not_answer_ends_no_wait(
    make: Any, rm: ClusterApi, journal: Callable[[str], Journal]
) -> None:
    writer = start_driver(journal("orders"))
    rm.answer(b"", 503)
    clock = ScriptedClock(*[lambda: None] * 6, lambda: end(writer, "FINISHED"))
    assert event_of(make(clock))["outcome"] == "succeeded"
    assert len(rm.asked) == 3


@pytest.mark.parametrize("connection", [None, {"conn_type": "spark", "host": "yarn"}])
def test_without_somebody_to_ask_it_looks_at_the_journal_alone(
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


def test_whatever_goes_wrong_is_tried_again_and_costs_no_try(
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


def test_what_will_not_go_away_is_left_to_the_worker(
    make: Any, rm: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(watch: DriverWatch) -> Any:
        raise StorageDeniedError(verb="read", uri="s3://x", reason="403")

    monkeypatch.setattr(DriverWatch, "poll", denied)
    assert event_of(make(ScriptedClock()))["outcome"] == "retry"


def test_it_may_run_again_elsewhere_says_the_same_and_holds_no_secret(
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
    asked: list[Any] = []

    def get(**arguments: Any) -> Any:
        asked.append(arguments)
        answer = states(len(asked)) if callable(states) else states
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get))
    asyncio.run(trigger.on_kill())
    return asked


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
def test_a_task_that_is_over_leaves_no_driver_behind(
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
    assert (request["kind"], request["epoch"], request["leaves"]) == ("stop", 1, True)


@pytest.mark.parametrize(
    "state", ["deferred", "scheduled", "queued", "running", "up_for_retry", "up_for_reschedule", "restarting", None]
)
def test_a_task_that_goes_on_elsewhere_or_was_cleared_keeps_its_driver(
    make: Any,
    rm: ClusterApi,
    root: Storage,
    journal: Callable[[str], Journal],
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
) -> None:
    """Airflow also calls on_kill when another triggerer has taken the trigger over."""
    start_driver(journal("orders"))
    asked = killed(make(ScriptedClock()), monkeypatch, {"r1": {"orders": state}})
    assert len(asked) == 1
    assert requests(root) == []


def test_of_a_mapped_task_its_own_instance_counts(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(journal("orders"))
    states = {"r1": {"orders_0": "failed", "orders_1": "deferred"}}
    (asked,) = killed(make(ScriptedClock()), monkeypatch, states, map_index=1)
    assert requests(root) == []
    assert asked == {"dag_id": "shop", "task_ids": ["orders"], "run_ids": ["r1"], "map_index": 1}
    killed(make(ScriptedClock()), monkeypatch, states, map_index=0)
    assert len(requests(root)) == 1


def test_an_airflow_that_does_not_answer_is_asked_again_and_then_nothing_is_done(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(journal("orders"))
    never = ConnectionError("the API server does not answer")
    assert len(killed(make(ScriptedClock(lambda: None)), monkeypatch, never)) == 3
    assert requests(root) == []
    answers = lambda number: never if number < 2 else {"r1": {"orders": "failed"}}  # noqa: E731
    killed(make(ScriptedClock()), monkeypatch, answers)
    assert len(requests(root)) == 1


def test_in_dag_test_where_there_is_no_task_instance_nothing_is_asked(
    make: Any, rm: ClusterApi, root: Storage, journal: Callable[[str], Journal]
) -> None:
    start_driver(journal("orders"))
    asyncio.run(make(ScriptedClock()).on_kill())
    assert requests(root) == []


@pytest.mark.parametrize("attempt", [None, "of another Dag"])
def test_nobody_elses_driver_is_asked_to_leave(
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
