"""Batch jobs with room for fewer workers than subtasks, over the storage alone."""

from __future__ import annotations

import os

import pytest

from airflow_provider_ckpt.coordinator.state.subtask_table import SubtaskStatus
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from tests.remote.jobs import one_worker, random_cluster, two_by_split
from tests.remote.master_process import MasterProcess
from tests.simulation.world import JOB

SEEDS = int(os.environ.get("CKPT_REMOTE_SEEDS", "8"))


def test_w7_a_slow_producer_does_not_time_out_the_waiting_subtasks() -> None:
    cluster = one_worker("batch", workers=2)
    cluster.supervises, cluster.room, cluster.patience = True, 1, 5.0
    cluster.groups = tuple(sorted(cluster.groups, key=lambda group: "src/0" not in group))
    begun = cluster.clock.now
    cluster.before_step = lambda runner: cluster.clock.now > begun + 20.0
    try:
        cluster.run(lambda: cluster.state.status is JobStatus.FINISHED)
        assert cluster.state.epoch == 2, "one planner, one JobMaster"
        cluster.finish()
    finally:
        cluster.world.delete()


@pytest.mark.slow
def test_r21_subtasks_added_by_a_rescale_run_beside_all_others() -> None:
    """The number of places grows with the number of subtasks. It is not fixed when the JobMaster starts."""
    cluster = random_cluster(1, 0.0, "batch", rescales=0.0, splits=60, make_graph=two_by_split)
    states: dict[SubtaskId, SubtaskStatus] = {}

    def look() -> bool:
        for master in cluster.awake(MasterProcess):
            if isinstance(master, MasterProcess) and master.job is not None:
                states.update(master.job._coordinator.subtask_statuses())
        by_split = [states[subtask] for subtask in states if subtask.vertex in ("parts", "more")]
        return len(by_split) == 12 and set(by_split) == {SubtaskStatus.RUNNING}

    try:
        cluster.run(lambda: bool(cluster.state.splits_assigned))
        changes = {uid: VertexSettings(parallelism=6) for uid in ("parts", "more")}
        write_request(cluster.world.live, JOB, ReconfigureRequest(changes, epoch=cluster.state.epoch))
        cluster.run(look, 6000)
        assert all(progress.left for progress in cluster._watched.refresh().split_progress())
        cluster.finish()
    finally:
        cluster.world.delete()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_batch_job_with_room_for_some_workers_survives_kills(seed: int) -> None:
    """Workers get the places in the order in which they start.

    A worker with a sink keeps its place to the end. The others use the remaining place one after the other.
    """
    cluster = random_cluster(seed, 0.02, "batch")
    to_the_end = {subtask for vertex in cluster.graph.vertices if vertex.sinks for subtask in vertex.subtasks}
    cluster.room = sum(not to_the_end.isdisjoint(group) for group in cluster.groups) + 1
    try:
        for _ in range(400):
            if cluster.state.status is JobStatus.FINISHED:
                break
            cluster.step()
        cluster.finish(60_000)
    except BaseException:
        print(f"seed {cluster.seed}, step {cluster.steps}")
        raise
    finally:
        cluster.world.delete()
