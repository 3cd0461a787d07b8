from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from tests.airflow.driver_journal import complete, end, start_driver

Journals = Callable[[str], Journal]


ORDERS = {"job_id": "orders"}


def trigger(root: str, **condition: Any) -> CheckpointTrigger:
    return CheckpointTrigger(condition={**ORDERS, **condition}, root=root, poll_interval=0.01)


async def first_event(running: CheckpointTrigger) -> dict[str, Any]:
    async for event in running.run():
        payload: dict[str, Any] = event.payload
        return payload
    raise AssertionError("the trigger ended without an event")


def test_the_event_is_sent_when_the_checkpoint_is_released(root: Storage, journal: Journals) -> None:
    async def scene() -> tuple[bool, dict[str, Any]]:
        waiting = asyncio.create_task(first_event(trigger(root.uri, checkpoint=2)))
        writer = await asyncio.to_thread(lambda: start_driver(journal("orders")))
        await asyncio.to_thread(complete, writer, 1)
        await asyncio.to_thread(complete, writer, 2, released=False)
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        await asyncio.to_thread(complete, writer, 3)
        return bool(done), await asyncio.wait_for(waiting, 30)

    too_early, event = asyncio.run(scene())
    assert not too_early
    assert event["outcome"] == "reached"
    assert event["result"]["released"] == 3
    assert json.loads(json.dumps(event)) == event


def test_a_trigger_that_runs_again_sends_the_same_event(root: Storage, journal: Journals) -> None:
    writer = start_driver(journal("orders"))
    complete(writer, 1, 2)
    end(writer, "FINISHED")
    path, arguments = trigger(root.uri).serialize()
    before = root.files("")
    module, _, name = path.rpartition(".")
    made = getattr(importlib.import_module(module), name)
    events = [asyncio.run(first_event(made(**arguments))) for _ in range(2)]
    assert events[0] == events[1]
    assert events[0]["result"] == {"job_id": "orders", "status": "FINISHED", "checkpoint": 2, "released": 2}
    assert root.files("") == before, "a trigger writes nothing"


def test_the_trigger_waits_for_a_root_that_does_not_exist_yet(tmp_path: Path) -> None:
    async def scene() -> bool:
        waiting = asyncio.create_task(first_event(trigger(str(tmp_path / "later"))))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        waiting.cancel()
        return bool(done)

    assert not asyncio.run(scene())
    assert not (tmp_path / "later").exists()


def test_a_failed_job_ends_the_wait_with_an_event(root: Storage, journal: Journals) -> None:
    end(start_driver(journal("orders")), "FAILED", "no such column")
    event = asyncio.run(first_event(trigger(root.uri)))
    assert event["outcome"] == "failed"
    assert "no such column" in event["message"]


@pytest.mark.parametrize("arguments", [{"root": "relative/root"}, {"root": None}])
def test_an_invalid_root_ends_the_wait_with_an_event(arguments: dict[str, Any]) -> None:
    event = asyncio.run(first_event(CheckpointTrigger(condition=ORDERS, **arguments)))
    assert event["outcome"] == "failed"


@pytest.mark.parametrize(
    "error",
    [AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR)), AirflowException("503"), OSError("reset")],
    ids=lambda error: type(error).__name__,
)
def test_it_polls_again_if_airflow_does_not_answer(
    root: Storage, journal: Journals, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    complete(start_driver(journal("orders")), 1)
    errors, settings = [error], CheckpointHook.asettings

    async def unanswered_at_first(hook: CheckpointHook) -> Any:
        if errors:
            raise errors.pop()
        return await settings(hook)

    monkeypatch.setattr(CheckpointHook, "asettings", unanswered_at_first)
    assert asyncio.run(first_event(trigger(root.uri, checkpoint=1)))["outcome"] == "reached"


def test_a_stored_trigger_has_the_connection_id_but_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "ckpt", "host": "s3://b", "login": "user", "password": "t0psecret"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    path, arguments = CheckpointTrigger(condition=ORDERS, ckpt_conn_id="lake").serialize()
    assert path == "airflow_provider_ckpt.triggers.checkpoint.CheckpointTrigger"
    assert arguments["ckpt_conn_id"] == "lake"
    assert "t0psecret" not in json.dumps(arguments)
