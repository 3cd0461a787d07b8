"""Jobs in batch mode with room for fewer workers than they have subtasks, over the storage alone."""

from __future__ import annotations

import os

import pytest

from airflow_provider_ckpt.model.job_status import JobStatus
from tests.remote.jobs import one_worker, random_cluster

SEEDS = int(os.environ.get("CKPT_REMOTE_SEEDS", "8"))


def test_w7_a_producer_that_takes_its_time_does_not_end_the_run_of_those_that_wait_for_its_room() -> None:
    cluster = one_worker("batch", workers=2)
    cluster.supervises, cluster.room, cluster.patience = True, 1, 2.0
    cluster.groups = tuple(sorted(cluster.groups, key=lambda group: "src/0" not in group))
    begun = cluster.clock.now
    cluster.before_step = lambda runner: cluster.clock.now > begun + 20.0
    try:
        cluster.run(lambda: cluster.state.status is JobStatus.FINISHED)
        assert cluster.state.epoch == 2, "one planner, one JobMaster"
        cluster.finish()
    finally:
        cluster.world.delete()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_and_begun_again_with_room_for_some(seed: int) -> None:
    """Whoever comes first has it. Those with a sink keep it to the end, the others one after the other the rest."""
    cluster = random_cluster(seed, 0.02, "batch")
    to_the_end = {one for vertex in cluster.graph.vertices if vertex.sinks for one in vertex.subtasks}
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
