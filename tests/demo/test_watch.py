"""Waits for the job: by its journal, with progress, and with an end if the job can no longer succeed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from dags_examples.demo_support.watch import DemoFailedError, JobFollower
from tests.demo.evidence import completed


class World:
    """World with a clock, whose sleeps run the next of ``steps``."""

    def __init__(self, root: Path) -> None:
        self.root, self.now, self.printed = root, 0.0, list[str]()
        self.ended: str | None = None
        self.steps: list[Callable[[], object]] = []
        self._journal: Journal | None = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()

    def write(self, *events: ev.Event) -> None:
        if self._journal is None:
            self._journal = Journal(open_root(open_storage(self.root)), "j")
            self._journal.claim("t1", Worker(), 0.0)
        for event in events:
            self._journal.write(event)

    def follower(self) -> JobFollower:
        return JobFollower(
            self.root, "j", self.printed.append, lambda: self.ended, clock=lambda: self.now, sleep=self.sleep
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "root")


def test_waiting_for_a_job_starts_early_and_prints_progress(world: World) -> None:
    first = completed(1, 1, history="running", reads_history=True)
    first[-1] = ev.CheckpointReleased(1, 0.2, {"flights_table": {"rows": 1234}})
    world.steps = [
        lambda: None,
        lambda: world.write(*first),
        lambda: world.write(ev.StatusChanged(JobStatus.RUNNING, 1.0)),
    ]
    state = world.follower().wait("RUNNING", lambda s: s.status == "RUNNING")
    assert (state.status, world.steps) == ("RUNNING", [])
    assert world.printed == ["  checkpoint   1  released   1,234 flights"]


def test_a_callback_runs_for_each_checkpoint_during_the_wait(world: World) -> None:
    world.write(*completed(1, 1, history="running", reads_history=True))
    later = [completed(number, number, history="running", reads_history=True) for number in (2, 3, 4)]
    world.steps = [functools.partial(world.write, *events) for events in later]
    done: list[int] = []
    world.follower().wait("4", lambda s: s.last_completed == 4, each_checkpoint=lambda: done.append(1))
    assert len(done) == 2


def test_waiting_for_an_ended_dag_run_fails_with_the_awaited_state(world: World) -> None:
    world.ended = "the Dag run has ended (exit code 1)"
    with pytest.raises(DemoFailedError, match=r"waited for the end, but the Dag run has ended .*not started"):
        world.follower().wait("the end", lambda s: False)


def test_waiting_too_long_fails(world: World) -> None:
    world.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
    with pytest.raises(DemoFailedError, match="it took too long; the job is RUNNING"):
        world.follower().wait("the end", lambda s: False, at_most=30)
    assert world.now >= 30


def test_a_returned_state_stays_as_it_was(world: World) -> None:
    follower = world.follower()
    assert follower.state().status is None
    world.write(ev.StatusChanged(JobStatus.RUNNING, 1.0))
    before = follower.state()
    world.write(ev.StatusChanged(JobStatus.FINISHED, 2.0))
    assert (before.status, follower.state().status) == ("RUNNING", "FINISHED")
