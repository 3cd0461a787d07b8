"""Trigger of a subtask's task that has finished in a batch job.

The journal is real. Airflow's answers and the clock are fakes.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.errors import StorageDeniedError, StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.base import SETTLING
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY, Siblings
from tests.airflow.group_journal import JOB_ID, coordinated, ended, finished, prepared

RETRY = f"{JOB_ID}~t2.coordinate"


class Clock:
    """Clock that runs functions at given seconds, whichever sleeps reach them. ``at``: second → function.

    A sleep long after the last one fails.
    """

    def __init__(self, at: dict[float, Callable[[], object]] | None = None) -> None:
        self.now, self.slept = 0.0, list[float]()
        self._at = dict(sorted((at or {}).items()))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        until = self.now + seconds
        assert self.slept == [SETTLING] or self._at or until < 1000, "the trigger still waits"
        for second in [due for due in self._at if due <= until]:
            await asyncio.to_thread(self._at.pop(second))
        self.now = until


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return finished(coordinated(prepared(journal(JOB_ID), mode="batch")), "history/0")


def made(root: str, clock: Clock, *, index: int = 0, is_told_whose: bool = True) -> Any:
    """Create the trigger from its serialized arguments, as another triggerer would."""
    first = FinishedSubtaskTrigger(
        job_id=JOB_ID,
        coordinate="orders.coordinate",
        ckpt_conn_id="ckpt_default",
        root=root,
        attempt=f"{JOB_ID}~t1.subtask",
        subtasks=["history/0"],
        deployment=1,
    )
    path, kept = first.serialize()
    module, _, name = path.rpartition(".")
    trigger = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(kept)))
    if is_told_whose:
        trigger._task_instance = SimpleNamespace(dag_id="shop", run_id="r1", task_id="orders.subtask", map_index=index)
    trigger._sleep, trigger._clock = clock.sleep, lambda: clock.now
    return trigger


async def event(trigger: Any) -> Any:
    async for trigger_event in trigger.run():
        return json.loads(json.dumps(trigger_event.payload))
    raise AssertionError("the trigger ended without an event")


def event_of(root: str, clock: Clock, **more: Any) -> dict[str, Any]:
    payload: dict[str, Any] = asyncio.run(event(made(root, clock, **more)))
    return payload


def test_the_event_is_sent_when_the_subtask_must_run_again(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    def prepare() -> None:
        prepared(orders, RETRY, mode="batch", again=["history/0"])

    clock = Clock({30: lambda: ended(orders, "RESTARTING"), 60: prepare})
    payload = event_of(root.uri, clock)
    assert payload["reason"] == "history/0 has to run again, in the deployment of epoch 3"
    assert (payload["is_alone"], payload["is_blind"]) == (False, False)
    assert clock.slept == [SETTLING, *[10.0] * 5]
    files = root.files("")
    assert event_of(root.uri, Clock()) == payload, "elsewhere, again"
    assert root.files("") == files


def test_no_event_is_sent_before_the_scheduler_has_recorded_the_deferral(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    ended(orders, "FINISHED")
    clock = Clock()
    assert event_of(root.uri, clock)["reason"] == "the job is FINISHED"
    assert clock.slept == [SETTLING] == [12.0]


def test_a_trigger_under_dag_test_polls_only_the_journal(
    root: Storage, orders: Journal, asked_tasks: list[str]
) -> None:
    clock = Clock({500: lambda: ended(orders, "STOPPED")})
    assert event_of(root.uri, clock, is_told_whose=False)["reason"] == "the job is STOPPED"
    assert asked_tasks == []


def test_an_ended_coordinate_task_ends_the_wait(
    root: Storage, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Siblings, "state", lambda self, task_id: "failed")
    clock = Clock()
    assert event_of(root.uri, clock)["is_alone"]
    assert clock.now >= SETTLING + ASK_EVERY, "it was asked twice"


class Together(Clock):
    """Clock for ``count`` triggers. None passes a second before all have reached it.

    ``then`` runs after an hour.
    """

    def __init__(self, count: int, then: Callable[[], object]) -> None:
        super().__init__({3600.0: then})
        self._count, self._here, self._gone = count, 0, asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._here += 1
        gone = self._gone
        if self._here < self._count:
            await gone.wait()
            return
        self._here, self._gone = 0, asyncio.Event()
        await super().sleep(seconds)
        gone.set()


@pytest.mark.slow
def test_200_triggers_poll_as_often_as_one(
    root: Storage, orders: Journal, asked_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = JobClient.read_state, list[JobClient]()

    def look(client: JobClient) -> JobState:
        looks.append(client)
        return real(client)

    monkeypatch.setattr(JobClient, "read_state", look)

    async def all_of_them() -> list[Any]:
        clock = Together(200, lambda: ended(orders, "FINISHED"))
        return list(await asyncio.gather(*(event(made(root.uri, clock, index=index)) for index in range(200))))

    assert {payload["reason"] for payload in asyncio.run(all_of_them())} == {"the job is FINISHED"}
    assert len(set(looks)) == 1
    assert len(looks) == 3600 / 10
    assert len(asked_tasks) == 3600 / ASK_EVERY


def test_a_storage_error_is_retried_at_the_next_poll(
    root: Storage, orders: Journal, asked_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the error were raised, it would cost the task a try."""
    real, failing = JobClient.read_state, [StorageTransientError(verb="read", uri="s3", reason="reset"), OSError()]

    def look(client: JobClient) -> JobState:
        if failing:
            raise failing.pop()
        return real(client)

    monkeypatch.setattr(JobClient, "read_state", look)
    ended(orders, "FINISHED")
    clock = Clock()
    assert event_of(root.uri, clock)["reason"] == "the job is FINISHED"
    assert clock.slept == [SETTLING, 10.0, 10.0]


def test_a_missing_journal_is_logged_once_and_does_not_end_the_wait(
    root: Storage, orders: Journal, asked_tasks: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example its file system is not mounted."""
    place, away = Path(root.uri.removeprefix("file://")), tmp_path / "away"
    ended(orders, "FINISHED")
    place.rename(away)
    clock = Clock({100: lambda: away.rename(place)})
    assert event_of(root.uri, clock)["reason"] == "the job is FINISHED"
    assert clock.now >= 100
    assert capsys.readouterr().out.count("cannot be read now: it is not there") == 1


def test_a_root_that_the_triggerer_may_not_read_ends_the_wait_as_blind(
    root: Storage, orders: Journal, asked_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(hook: CheckpointHook, job_id: str) -> Any:
        raise StorageDeniedError(uri="s3://lake", reason="403")

    monkeypatch.setattr(CheckpointHook, "client", denied)
    payload = event_of(root.uri, Clock())
    assert "s3://lake" in payload["reason"]
    assert (payload["is_blind"], payload["is_alone"]) == (True, False)
