"""Abandoned JobMasters: the process lives on.

The JobMaster leaves as if it were killed, and reports no end of the job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest import mock

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.remote.mailbox import master_name, read_outbox
from airflow_provider_ckpt.remote.master import Master
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.layout import deployment_path
from airflow_provider_ckpt.storage.root import open_root
from tests.remote.cluster import Cluster
from tests.remote.hosted import RunningAttempt
from tests.remote.jobs import one_worker
from tests.remote.master_process import Planner
from tests.simulation.world import JOB
from tests.support.waiting import wait_until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = one_worker()
    open_root(made.world.live)
    Planner(made, "planner").step()
    with mock.patch("airflow_provider_ckpt.remote.master.bind_sinks", return_value=made.sinks):
        yield made
    made.world.delete()


def test_an_abandoned_jobmaster_leaves_the_job_to_the_next_one(cluster: Cluster) -> None:
    first, storage = RunningAttempt(cluster), cluster.world.live
    first.host.start()
    path = f"{deployment_path(JOB, 1)}/{master_name(2)}.json"
    wait_until(lambda: read_outbox(storage, path) is not None, "its first word to the workers")
    first.host.abandon()
    assert first.host.has_ended_within(30)
    assert first.ends == [ExitCode.FAILED]
    assert [line.kind for line in first.lines if "next one resumes it" in line.message] == ["warning"]
    state = Journal(storage, JOB).refresh()
    assert (state.deployment, state.cause) == (1, None)
    assert state.status is None or state.status.is_alive
    outbox = read_outbox(storage, path)
    assert outbox is not None
    assert outbox.left is not None
    second = RunningAttempt(cluster)
    second.host.start()
    wait_until(lambda: second.epoch() == 3, "the next one's claim")
    second.host.abandon()
    assert second.host.has_ended_within(30)


def test_a_jobmaster_abandoned_before_its_start_claims_nothing(cluster: Cluster) -> None:
    hosted = RunningAttempt(cluster)
    hosted.host.abandon()
    hosted.host.start()
    assert hosted.host.has_ended_within(30)
    assert hosted.epoch() == 1


def test_a_jobmaster_abandoned_during_its_takeover_runs_nothing(cluster: Cluster) -> None:
    hosted, made = RunningAttempt(cluster), Master.make
    threads: list[threading.Thread] = []

    def make(master: Master, journal: object) -> object:
        hosted.host.abandon()
        threads.append(threading.current_thread())
        return made(master, journal)  # type: ignore[arg-type]

    with mock.patch.object(Master, "make", make):
        hosted.host.start()
        assert hosted.host.has_ended_within(30)
    assert threads
    assert hosted.ends == [ExitCode.FAILED]
    path = f"{deployment_path(JOB, 1)}/{master_name(2)}.json"
    assert read_outbox(cluster.world.live, path) is None


def test_a_jobmaster_abandoned_just_before_its_claim_claims_nothing(cluster: Cluster) -> None:
    hosted, admitted = RunningAttempt(cluster), Master._admit

    def admit(master: Master, state: JobState) -> int:
        epoch = admitted(master, state)
        hosted.host.abandon()
        return epoch

    with mock.patch.object(Master, "_admit", admit):
        hosted.host.start()
        assert hosted.host.has_ended_within(30)
    assert hosted.epoch() == 1
