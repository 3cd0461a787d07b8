"""Triggers poll exactly as often as tests/costs counts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.triggers.awaited_master import AwaitedMasterTrigger
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger, GroupPolls
from airflow_provider_ckpt.triggers.release import CheckpointReleaseTrigger
from airflow_provider_ckpt.triggers.spark_application import SparkApplicationTrigger
from tests.costs import looks
from tests.costs.looks import JOB, Watched
from tests.costs.meter import Cost

HOUR = 360


class OverError(Exception):
    """Signal that the hour is over."""


class Hour:
    """An hour of polls every ten seconds. ``sleep`` replaces the trigger's own wait.

    Requests before the end of the second poll are not counted. ``first`` is 1 for a trigger that also waits before its
    first poll.
    """

    def __init__(self, watched: Watched, monkeypatch: pytest.MonkeyPatch, *, first: int = 0) -> None:
        self.watched, self.monkeypatch = watched, monkeypatch
        self._left = itertools.count(HOUR + 2 + first, -1)

    async def sleep(self, seconds: float) -> None:
        left = next(self._left) - 1
        if left == HOUR:
            self.watched.meter.taken()
        if left == 0:
            raise OverError

    def of(self, trigger: Any) -> Cost:
        self.monkeypatch.setattr(trigger, "_sleep", self.sleep)

        async def wait() -> None:
            async for event in trigger.run():
                raise AssertionError(event)

        with pytest.raises(OverError):
            asyncio.run(wait())
        return self.watched.meter.taken()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def release(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Cost]:
    def hour() -> Cost:
        trigger: Any = CheckpointReleaseTrigger(job_id=JOB)

        async def client() -> Any:
            return watched.client

        monkeypatch.setattr(trigger, "_client", client)
        return Hour(watched, monkeypatch).of(trigger)

    return hour


def test_a_release_trigger_costs_as_much_as_a_sensor(release: Callable[[], Cost]) -> None:
    assert release() == looks.sensor(10)


def test_a_release_trigger_does_not_reread_the_journal_of_an_ended_job(
    watched: Watched, release: Callable[[], Cost]
) -> None:
    for _ in range(50):
        watched.checkpoint()
    watched.end()
    assert release() == looks.sensor(10) + Cost(HOUR, 0)


def test_a_deferred_sensor_costs_as_much_as_a_poking_one(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    condition = {"job_id": JOB, "wait_for_restart": True}
    trigger = CheckpointTrigger(condition=condition, root=watched.storage.uri, poll_interval=10.0)
    look = trigger._new_job_poll
    monkeypatch.setattr(trigger, "_new_job_poll", lambda hook: look(watched.hook))
    assert Hour(watched, monkeypatch, first=1).of(trigger) == looks.sensor(10)


def test_a_deferred_task_polls_the_cluster_each_minute(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = SparkApplicationTrigger(
        job_id=JOB, submission={}, spark_conn_id="yarn", ckpt_conn_id=None, root=watched.storage.uri
    )

    async def watch() -> Any:
        return looks.watch(watched, poll=trigger.poll_interval, status_interval=trigger.status_interval)

    hour = Hour(watched, monkeypatch, first=1)
    monkeypatch.setattr(trigger, "_watch", watch)
    assert hour.of(trigger) == looks.deferred_task(10, 60)


def test_a_task_that_waits_for_a_jobmaster_polls_journal_and_heartbeat(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = AwaitedMasterTrigger(
        job_id=JOB, deployment=1, epoch=2, coordinate="c", ckpt_conn_id=None, root=watched.storage.uri
    )

    async def watch() -> Any:
        return looks.comeback(watched, poll=trigger.poll_interval)

    hour = Hour(watched, monkeypatch, first=1)
    monkeypatch.setattr(trigger, "_watch", watch)
    assert hour.of(trigger) == looks.awaiting_task(10)


def test_300_finished_batch_tasks_cost_at_most_twice_as_much_as_one(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.journal.claim("shop.orders.r1~t1.plan", Worker(), 1.0)
    trigger: Any = FinishedSubtaskTrigger(
        job_id=JOB,
        coordinate="c",
        ckpt_conn_id=None,
        root=watched.storage.uri,
        attempt="shop.orders.r1~t1.subtask",
        subtasks=["history/0"],
        deployment=0,
    )
    seconds = itertools.count(0.0, 10.0)

    async def group_polls() -> Any:
        return GroupPolls(watched.client.read_state, lambda: "deferred", clock=lambda: next(seconds))

    hour = Hour(watched, monkeypatch, first=1)
    monkeypatch.setattr(trigger, "_group_polls", group_polls)
    cost = hour.of(trigger)
    assert cost == looks.sensor(10) == looks.finished_tasks(1, 10)
    assert cost.gets < looks.finished_tasks(300, 10).gets <= 2 * cost.gets
