"""Trigger of a subtask's task whose worker left because it had no JobMaster.

The journal is real. Airflow's answers and the clock are fakes.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import StorageDeniedError, StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger, MasterAvailableWatch
from airflow_provider_ckpt.triggers.base import SETTLING
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY, Siblings
from tests.airflow.group_journal import JOB_ID, coordinated, ended, prepared
from tests.airflow.support import ScriptedClock


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return coordinated(prepared(journal(JOB_ID)))


def event_of(
    root: str, clock: ScriptedClock, *, is_told_whose: bool = True, attempt: str | None = None
) -> dict[str, Any]:
    """Run the trigger from its serialized arguments, as another triggerer would, and return its event."""
    first = AwaitedMasterTrigger(
        job_id=JOB_ID,
        deployment=1,
        epoch=2,
        coordinate="orders.coordinate",
        ckpt_conn_id="ckpt_default",
        root=root,
        attempt=attempt,
    )
    path, kept = first.serialize()
    module, _, name = path.rpartition(".")
    trigger = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(kept)))
    if is_told_whose:
        trigger._task_instance = SimpleNamespace(dag_id="shop", run_id="r1", task_id="orders.subtask", map_index=0)
    trigger._sleep = clock.sleep

    async def event() -> Any:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("the trigger ended without an event")

    return json.loads(json.dumps(asyncio.run(event())))  # type: ignore[no-any-return]


def test_the_event_is_sent_when_a_jobmaster_has_claimed_the_job(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    clock = ScriptedClock(lambda: None, lambda: coordinated(orders))
    event = event_of(root.uri, clock)
    assert event == {"reason": "the JobMaster of epoch 3 has the job", "is_alone": False, "is_blind": False}
    assert clock.slept == [SETTLING, 10.0, 10.0]
    files = root.files("")
    assert event_of(root.uri, ScriptedClock()) == event, "elsewhere, again"
    assert root.files("") == files


def test_no_event_is_sent_before_the_scheduler_has_recorded_the_deferral(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    ended(orders, "STOPPED")
    clock = ScriptedClock()
    assert "STOPPED" in event_of(root.uri, clock)["reason"]
    assert clock.slept == [SETTLING] == [12.0]


def test_the_task_state_is_polled_once_a_minute(root: Storage, orders: Journal, asked_tasks: list[str]) -> None:
    minute = round(ASK_EVERY / 10.0)
    idle: list[Callable[[], object]] = [lambda: None] * (2 * minute - 1)
    event_of(root.uri, ScriptedClock(*idle, lambda: ended(orders, "FINISHED")))
    assert asked_tasks == ["orders.coordinate"] * 3


def test_a_trigger_under_dag_test_polls_only_the_journal(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    event = event_of(root.uri, ScriptedClock(lambda: None, lambda: coordinated(orders)), is_told_whose=False)
    assert "epoch 3" in event["reason"]
    assert asked_tasks == []


def test_an_ended_coordinate_task_ends_the_wait(
    root: Storage, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Siblings, "state", lambda self, task_id: "failed")
    assert event_of(root.uri, ScriptedClock())["is_alone"]


def test_a_storage_error_is_retried_at_the_next_poll(
    root: Storage, orders: Journal, asked_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the error were raised, it would cost the task a try."""
    real, failing = MasterAvailableWatch.poll, [StorageTransientError(verb="read", uri="s3", reason="reset"), OSError()]

    def look(watch: MasterAvailableWatch) -> Any:
        if failing:
            raise failing.pop()
        return real(watch)

    monkeypatch.setattr(MasterAvailableWatch, "poll", look)
    clock = ScriptedClock(lambda: None, lambda: None, lambda: coordinated(orders))
    assert "epoch 3" in event_of(root.uri, clock)["reason"]
    assert len(clock.slept) == 4


def test_a_root_that_the_triggerer_may_not_read_ends_the_wait_as_blind(
    root: Storage, orders: Journal, asked_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(hook: CheckpointHook) -> Any:
        raise StorageDeniedError(uri="s3://lake", reason="403")

    monkeypatch.setattr(CheckpointHook, "storage", denied)
    event = event_of(root.uri, ScriptedClock())
    assert "s3://lake" in event["reason"]
    assert event["is_blind"]
    assert not event["is_alone"]


def test_a_subtask_of_a_failed_run_waits_for_the_next_deployment(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    ended(orders, "RESTARTING")
    clock = ScriptedClock(lambda: None, lambda: prepared(orders, f"{JOB_ID}~t2.coordinate"))
    event = event_of(root.uri, clock, attempt=f"{JOB_ID}~t1.subtask")
    assert event["reason"] == "the job is prepared, in the deployment of epoch 3"
    assert clock.slept == [SETTLING, 10.0, 10.0]
