"""Deadlines of a run: they do not restart when another process becomes the JobMaster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from unittest import mock

import pytest

from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.root import open_root
from tests.remote.cluster import Cluster
from tests.remote.hosted import RunningAttempt
from tests.remote.jobs import endless
from tests.remote.master_process import Planner
from tests.simulation.world import JOB
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

HOUR = 3600.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster whose workers have been added. They take steps when the test reads the job's state."""
    made = endless()
    made.supervises = False
    open_root(made.world.live)
    Planner(made, "planner").step()
    for group in made.groups:
        made.add(made.worker(group))
    sinks = mock.patch("airflow_provider_ckpt.remote.master.bind_sinks", return_value=made.sinks)
    with sinks, mock.patch.object(made.world, "look"):  # the check would read the storage while a thread writes
        yield made
    made.world.delete()


def look(cluster: Cluster) -> JobState:
    for _ in range(5):
        cluster.step()
    return Journal(cluster.world.live, JOB).refresh()


def test_stop_after_does_not_restart_under_the_next_jobmaster(cluster: Cluster) -> None:
    first = RunningAttempt(cluster, stop_after=HOUR / 2)
    first.host.start()
    wait_until(lambda: look(cluster).status is JobStatus.RUNNING, "the job runs")
    since = look(cluster).running_since
    assert since is not None
    first.host.abandon()
    assert first.host.has_ended_within(30)
    second = RunningAttempt(cluster, stop_after=HOUR / 2)
    later = Clock(wall=lambda: time.time() + HOUR)
    with mock.patch("airflow_provider_ckpt.jobmaster.job_master.Clock", return_value=later):
        second.host.start()
        wait_until(lambda: not look(cluster).is_held, "the end of the run")
        assert second.host.has_ended_within(30)
    assert second.ends == [ExitCode.FINISHED]
    ended = look(cluster)
    assert (ended.status, ended.running_since) == (JobStatus.STOPPED, None)
