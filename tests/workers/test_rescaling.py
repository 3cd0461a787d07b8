"""Rescales of a source with splits while workers run the job.

The worker of the new subtasks is killed, and so is the JobMaster during a rescale. Every split is read, and every row
arrives once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import SubtaskId
from tests.support.waiting import wait_until
from tests.workers.ending import finish
from tests.workers.evidence import Evidence, check_readings
from tests.workers.world import PATIENCE, World

H0, H1, H2, H3 = (SubtaskId.of("history", number) for number in range(4))


def rescaled(world: World, parallelism: int) -> str:
    return str(world.client.answer(world.client.rescale("history", parallelism), PATIENCE).outcome)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_r21_a_job_with_killed_workers_can_be_rescaled(tmp_path: Path) -> None:
    groups = ("history+live", "archive+orders+cold")
    with World(tmp_path, splits=40) as world, Evidence(world) as evidence:
        world.plan()
        master, members = world.master(), world.workers(groups)
        master.wait_for("running")
        evidence.wait_for_batches("live", "orders", "cold", more=1)

        assert rescaled(world, 3) == "completed: history is read by 3"
        assert world.state().hosts == {H1: H0, H2: H0}
        before = {vertex: evidence.attempts(vertex) for vertex in ("history", "live", "orders", "cold")}
        evidence.wait_for_batches_of(H1, H2, more=1)
        evidence.wait_for_batches("live", "orders", "cold", more=1)
        assert {vertex: evidence.attempts(vertex) for vertex in before} == before, "nobody begins again for it"

        members["history+live"].kill()
        members["history+live"] = world.worker("history", "live")
        evidence.wait_for_batches_of(H0, H1, H2, more=1)

        world.client.rescale("history", 4)
        wait_until(lambda: world.state().graph().vertex("history").parallelism == 4, "a graph that has changed")
        master.kill()
        master = world.master()
        evidence.wait_for_batches_of(H3, more=1)
        assert world.state().hosts == {H1: H0, H2: H0, H3: H0}

        world.slow(False)
        finish(world, evidence, master, members.values())
        check_readings(world, killed=3 + 4 + 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_for_a_hosted_subtask_is_refused(tmp_path: Path) -> None:
    groups = ("history+archive", "live+orders+cold")
    with World(tmp_path, splits=40) as world, Evidence(world) as evidence:
        world.plan()
        master, members = world.master(), world.workers(groups)
        master.wait_for("running")
        assert rescaled(world, 2) == "completed: history is read by 2"
        refused = world.worker("history/1")
        assert refused.wait(PATIENCE) == 2, refused.tail()
        assert (
            "'history/1' of job 'five' was added by a rescale, and the worker that runs 'history/0' runs it, too"
            in refused.text()
        )
        finish(world, evidence, master, members.values())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_controllers_change_a_job_with_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One controller acts on the JobMaster's split progress, the other one on a worker's query measurements."""
    monkeypatch.setenv("CKPT_WORKERS_CONTROLLED", "yes")
    groups = ("history+archive", "live+orders+cold")
    with World(tmp_path, splits=40) as world, Evidence(world) as evidence:
        world.plan()
        master, members = world.master(), world.workers(groups)
        wait_until(
            lambda: (
                {reconfiguration.by for reconfiguration in world.state().reconfigurations}
                >= {"Autoscaler(history)", "Weighs"}
            ),
            lambda: f"two changes: {world.state().reconfigurations}\n{master.tail()}",
            seconds=PATIENCE,
        )
        assert world.state().settings["orders"].pool_weight == 2
        assert world.state().hosts == {H1: H0}
        evidence.wait_for_batches_of(H1, more=1)
        finish(world, evidence, master, members.values())
