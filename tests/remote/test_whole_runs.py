"""Whole jobs over the storage alone, under all faults that can happen to their processes.

Each row arrives once. When the faults stop, the job finishes. So no file of a result partition is deleted before it was
read: its reader would never finish. ``CKPT_REMOTE_SEEDS``: number of seeds, default 8.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.subtasklog.records import Open
from tests.remote.cluster import Cluster
from tests.remote.jobs import random_cluster, two_by_split
from tests.remote.standby_process import StandbyProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.growing import GrowingRunner

SEEDS = int(os.environ.get("CKPT_REMOTE_SEEDS", "8"))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncate logs and compact the journal often."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 3)
    monkeypatch.setattr(retention, "WORTH_A_SNAPSHOT", 7)


def run(cluster: Cluster, steps: int) -> None:
    try:
        for _ in range(steps):
            if cluster.state.status is JobStatus.FINISHED:
                break
            cluster.step()
        cluster.finish()
    except BaseException:
        print(f"seed {cluster.seed}, {cluster.mode}, step {cluster.steps}")
        raise
    finally:
        cluster.world.delete()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(2))
def test_a_job_without_faults_finishes(mode: RuntimeMode, seed: int) -> None:
    cluster = random_cluster(seed, 0.0, mode)
    run(cluster, 5000)
    assert cluster.state.epoch == 2  # one planner, one JobMaster
    assert cluster.left == {}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_job_survives_killed_paused_and_doubled_processes(mode: RuntimeMode, seed: int) -> None:
    steps = Random(f"steps {seed}").choice((200, 600, 1500))
    run(random_cluster(seed, 0.025, mode), steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_job_whose_subtasks_restart_without_failures_finishes(seed: int) -> None:
    cluster = random_cluster(seed, 0.0, "streaming")
    cluster.streaming_runner = GrowingRunner
    run(cluster, 5000)
    assert (cluster.state.epoch, cluster.state.restarts, cluster.left) == (2, {}, {})
    opened = [
        record.attempt.number for log in cluster.world.logs.values() for record in log if isinstance(record, Open)
    ]
    assert max(opened) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_job_with_restarts_survives_kills_and_pauses(seed: int) -> None:
    cluster = random_cluster(seed, 0.025, "streaming", rescales=0.01 * (seed % 3))
    cluster.streaming_runner, cluster.standbys = GrowingRunner, seed % 2
    run(cluster, Random(f"steps {seed}").choice((200, 600, 1500)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_job_with_standby_workers_survives_kills_and_pauses(mode: RuntimeMode, seed: int) -> None:
    """Standby workers take over from killed workers, from paused ones and from each other.

    In half of the seeds the supervisor never restarts a worker.
    """
    cluster = random_cluster(seed, 0.025, mode)
    cluster.standbys, cluster.replaces = 1 + seed % 2, seed % 4 < 2
    run(cluster, Random(f"steps {seed}").choice((200, 600, 1500)))


def test_a_standby_worker_finishes_the_job_when_all_others_are_gone() -> None:
    cluster = random_cluster(3, 0.0, "streaming")
    cluster.standbys, cluster.replaces = 1, False
    cluster.run(lambda: len(cluster.awake(WorkerProcess)) > len(cluster.groups))
    for worker in cluster.awake(WorkerProcess):
        if not isinstance(worker, StandbyProcess):
            worker.kill()
    run(cluster, 100)
    assert cluster.took_over


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_without_faults_can_be_rescaled_repeatedly(mode: RuntimeMode, seed: int) -> None:
    cluster = random_cluster(seed, 0.0, mode, rescales=0.02)
    run(cluster, 5000)
    assert cluster.world.rescaled, "nobody had it read by more"
    assert (cluster.state.epoch, cluster.left) == (2, {})


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_rescaled_job_survives_kills_and_pauses(mode: RuntimeMode, seed: int) -> None:
    steps = Random(f"steps {seed}").choice((200, 600, 1500))
    run(random_cluster(seed, 0.025, mode, rescales=0.02), steps)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_standby_workers_rescale_several_sources_at_once(mode: RuntimeMode, seed: int) -> None:
    """One vertex reads two of the sources, and two vertices read one of them. One source has a sink of its own."""
    cluster = random_cluster(seed, 0.02, mode, rescales=0.02, make_graph=two_by_split)
    cluster.standbys, cluster.replaces = seed % 3, seed % 3 == 0 or seed % 4 < 2
    run(cluster, Random(f"steps {seed}").choice((200, 600, 1500)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_job_with_a_worker_for_each_vertex_can_be_rescaled(mode: RuntimeMode, seed: int) -> None:
    """A worker may start at any moment of a rescale. It must not begin a subtask that has to wait.

    Otherwise a checkpoint could cover input from that subtask without the subtask itself. Or the JobMaster would wait
    for it in vain.
    """
    cluster = random_cluster(seed, 0.02, mode, rescales=0.02, make_graph=two_by_split)
    cluster.by_vertex, cluster.groups = True, tuple(vertex.subtasks for vertex in cluster.graph.vertices)
    run(cluster, Random(f"steps {seed}").choice((200, 600, 1500)))
