"""What an hour of looks at a job from outside costs: those of a sensor, of a trigger, of a deferred task."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.hooks.application import ApplicationReport, ApplicationState, Submission
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    DeploymentPrepared,
    StatusChanged,
)
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.triggers.comeback import Comeback
from airflow_provider_ckpt.triggers.comeback_watch import ComebackWatch
from airflow_provider_ckpt.triggers.condition import CheckpointCondition
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.finished_subtask import shared_age
from airflow_provider_ckpt.triggers.group_looks import GroupLooks
from airflow_provider_ckpt.triggers.look import Look
from airflow_provider_ckpt.triggers.siblings import ASK_EVERY
from tests.costs.meter import Cost, Meter

JOB = "orders"
_NUMBERS = itertools.count()


class Watched:
    """A job that a driver on another host runs."""

    def __init__(self) -> None:
        self.storage = open_root(MemoryStorage(f"watched/{os.getpid()}-{next(_NUMBERS)}"))
        self.meter = Meter(self.storage)
        self.journal = Journal(self.storage, JOB)
        self.journal.claim("t1", Worker(host="elsewhere", pid=1), 1.0)
        self.journal.write(StatusChanged(JobStatus.RUNNING, 1.0))
        self._checkpoint = 0

    @property
    def client(self) -> JobClient:
        return JobClient(self.meter, JOB)

    @property
    def hook(self) -> Any:
        settings = SimpleNamespace(redact=lambda text: text)
        return SimpleNamespace(client=lambda job_id: self.client, settings=lambda: settings, storage=lambda: self.meter)

    def checkpoint(self) -> None:
        self._checkpoint += 1
        self.journal.write(CheckpointTriggered(self._checkpoint, 1.0))
        self.journal.write(CheckpointCompleted(self._checkpoint, 1.0, 2.0, "checkpoint", {}, {}))
        self.journal.write(CheckpointReleased(self._checkpoint, 3.0))

    def end(self) -> None:
        self.journal.write(StatusChanged(JobStatus.STOPPED, 1.0))

    def hour(self, look: Callable[[], object], looks: int, checkpoints: int = 0) -> Cost:
        """Of so many looks, all but the first ones of a wait. ``checkpoints``: completed meanwhile, spread evenly."""
        look()
        look()
        self.meter.taken()
        for number in range(1, looks + 1):
            if number * checkpoints // looks > (number - 1) * checkpoints // looks:
                self.checkpoint()
            look()
        return self.meter.taken()


def sensor(poll: float, checkpoints: int = 0) -> Cost:
    """Deferred or not: :class:`CheckpointTrigger` and the sensor take the same looks."""
    watched = Watched()
    look = Look(watched.hook, CheckpointCondition(JOB, wait_for_restart=True), interval=poll)
    return watched.hour(look, round(3600 / poll), checkpoints)


def deferred_task(poll: float, status_interval: float, checkpoints: int = 0) -> Cost:
    """Of :class:`SparkApplicationTrigger`. What the cluster is asked is no request to the storage; the look behind its
    answer is."""
    watched = Watched()
    look = watch(watched, poll=poll, status_interval=status_interval).look
    return watched.hour(look, round(3600 / poll), checkpoints)


def awaiting_task(poll: float, ask_every: float = ASK_EVERY) -> Cost:
    """Of :class:`AwaitedMasterTrigger`, of a subtask's task that waits for a JobMaster. What Airflow is asked is no
    request to the storage."""
    watched = Watched()
    return watched.hour(comeback(watched, poll=poll, ask_every=ask_every).look, round(3600 / poll))


def finished_tasks(count: int, poll: float) -> Cost:
    """Of :class:`FinishedSubtaskTrigger`, of so many tasks of a group in one triggerer, one after the other begun: they
    share their looks."""
    watched, now = Watched(), 0.0
    shared = GroupLooks(watched.client.look, lambda: "deferred", clock=lambda: now)

    async def wait(seconds: float) -> None:
        nonlocal now
        for _ in range(round(seconds / poll) * count):
            await shared.reading(shared_age(poll))
            now += poll / count

    asyncio.run(wait(4 * poll))
    watched.meter.taken()
    asyncio.run(wait(3600.0))
    return watched.meter.taken()


def comeback(watched: Watched, *, poll: float, ask_every: float = ASK_EVERY) -> ComebackWatch:
    """As the trigger has it, of a JobMaster that has died."""
    deployment = watched.journal.state.epoch
    watched.journal.write(DeploymentPrepared(deployment, 1.0))
    epoch = watched.journal.claim("t1", Worker(), 1.0, deployment=deployment)
    awaited = Comeback(deployment, epoch)
    return ComebackWatch(watched.hook, JOB, awaited, lambda: "deferred", every=round(ask_every / poll))


def watch(watched: Watched, *, poll: float, status_interval: float) -> DriverWatch:
    """As the trigger has it, of a driver that the cluster says is running."""
    submission = Submission("yarn", "tag", "t1", 0, application_id="application_1_1", is_submitted=True, is_seen=True)
    running = ApplicationReport(ApplicationState.RUNNING, "", "application_1_1")
    status: Any = SimpleNamespace(report=lambda asked: running)
    return DriverWatch(watched.hook, JOB, submission, status, every=round(status_interval / poll))
