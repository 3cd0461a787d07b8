"""Hourly cost of polling a job from outside: by a sensor, a trigger and a deferred task."""

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
from airflow_provider_ckpt.triggers.awaited_master import MasterAvailable, MasterAvailableWatch
from airflow_provider_ckpt.triggers.condition import CheckpointCondition
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.finished_subtask import GroupPolls, shared_age
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY
from airflow_provider_ckpt.triggers.job_poll import JobPoll
from tests.costs.meter import Cost, Meter

JOB = "orders"
_NUMBERS = itertools.count()


class Watched:
    """Job that runs in a driver on another host."""

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
        """Return the cost of ``looks`` polls, without the first two polls of a wait.

        ``checkpoints``: number of checkpoints completed meanwhile, spread evenly.
        """
        look()
        look()
        self.meter.taken()
        for number in range(1, looks + 1):
            if number * checkpoints // looks > (number - 1) * checkpoints // looks:
                self.checkpoint()
            look()
        return self.meter.taken()


def sensor(poll: float, checkpoints: int = 0) -> Cost:
    """Return the hourly cost of a sensor, deferred or not. :class:`CheckpointTrigger` polls in the same way."""
    watched = Watched()
    look = JobPoll(watched.hook, CheckpointCondition(JOB, wait_for_restart=True), interval=poll)
    return watched.hour(look, round(3600 / poll), checkpoints)


def deferred_task(poll: float, status_interval: float, checkpoints: int = 0) -> Cost:
    """Return the hourly cost of :class:`SparkApplicationTrigger`.

    Requests to the cluster are not requests to the storage, but the poll after each answer is.
    """
    watched = Watched()
    look = watch(watched, poll=poll, status_interval=status_interval).poll
    return watched.hour(look, round(3600 / poll), checkpoints)


def awaiting_task(poll: float, ask_every: float = ASK_EVERY) -> Cost:
    """Return the hourly cost of :class:`AwaitedMasterTrigger` for a subtask's task that waits for a JobMaster.

    Requests to Airflow are not requests to the storage.
    """
    watched = Watched()
    return watched.hour(comeback(watched, poll=poll, ask_every=ask_every).poll, round(3600 / poll))


def finished_tasks(count: int, poll: float) -> Cost:
    """Return the hourly cost of :class:`FinishedSubtaskTrigger` for ``count`` tasks of a group in one triggerer.

    The tasks start one after the other and share their polls.
    """
    watched, now = Watched(), 0.0
    shared = GroupPolls(watched.client.read_state, lambda: "deferred", clock=lambda: now)

    async def wait(seconds: float) -> None:
        nonlocal now
        for _ in range(round(seconds / poll) * count):
            await shared.reading(shared_age(poll))
            now += poll / count

    asyncio.run(wait(4 * poll))
    watched.meter.taken()
    asyncio.run(wait(3600.0))
    return watched.meter.taken()


def comeback(watched: Watched, *, poll: float, ask_every: float = ASK_EVERY) -> MasterAvailableWatch:
    """Return the watch that the trigger uses, for a JobMaster that has died."""
    deployment = watched.journal.state.epoch
    watched.journal.write(DeploymentPrepared(deployment, 1.0))
    epoch = watched.journal.claim("t1", Worker(), 1.0, deployment=deployment)
    awaited = MasterAvailable(deployment, epoch)
    return MasterAvailableWatch(watched.hook, JOB, awaited, lambda: "deferred", every=round(ask_every / poll))


def watch(watched: Watched, *, poll: float, status_interval: float) -> DriverWatch:
    """Return the watch that the trigger uses, for a driver that the cluster reports as running."""
    submission = Submission("yarn", "tag", "t1", 0, application_id="application_1_1", is_submitted=True, is_seen=True)
    running = ApplicationReport(ApplicationState.RUNNING, "", "application_1_1")
    status: Any = SimpleNamespace(report=lambda asked: running)
    return DriverWatch(watched.hook, JOB, submission, status, every=round(status_interval / poll))
