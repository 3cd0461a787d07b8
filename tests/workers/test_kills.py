"""kill -9 of one process after the other while the job runs.

The other processes continue undisturbed, and every row arrives once.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.workers.ending import finish
from tests.workers.evidence import Evidence, check_readings
from tests.workers.world import PATIENCE, VERTICES, Member, World

SEED = int(os.environ.get("CKPT_WORKERS_SEED", "1"))


def kill_and_replace(
    world: World, evidence: Evidence, members: dict[str, Member], *killed: str, master: bool = False
) -> None:
    """Kill all of ``killed`` at once and replace them.

    Check that the other workers keep publishing in their current attempts.
    """
    before = {vertex: evidence.attempts(vertex) for vertex in VERTICES}
    for name in killed:
        members[name].kill()
    for name in killed:
        members[name] = world.worker(*name.split("+"))
    gone = [vertex for name in killed for vertex in name.split("+")]
    for vertex in gone:
        evidence.wait_for_attempt(vertex, len(before[vertex]) + 1)
    evidence.wait_for_batches("live", "orders", "cold", *gone)
    for vertex in VERTICES:
        now, more = evidence.attempts(vertex), 1 if vertex in gone else 0
        if master and vertex in ("history", "archive"):
            continue  # subtasks that read splits begin a new attempt for another master
        assert len(now) == len(before[vertex]) + more, f"{vertex} began again when {killed} was killed: {now}"
    evidence.check()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_and_the_master_are_killed(tmp_path: Path) -> None:
    """Kill a random worker and the JobMaster at once: a small version of the test below."""
    groups = ("history+live", "archive+orders+cold")
    with World(tmp_path, splits=30) as world, Evidence(world) as evidence:
        master, members = world.master(), world.workers(groups)
        master.wait_for("running")
        evidence.wait_for_batches("live", "orders", "cold", more=1)
        master.kill()
        master = world.master()
        kill_and_replace(world, evidence, members, random.Random(SEED).choice(groups), master=True)
        finish(world, evidence, master, members.values())
        check_readings(world, killed=4)


@pytest.mark.workers
@pytest.mark.timeout(1800)
def test_each_kind_of_process_is_killed(tmp_path: Path) -> None:
    """Kill the planner half-way, then a worker of a streaming vertex, and a worker of a source with splits.

    Then kill the JobMaster, two workers at once, and finally a worker and the JobMaster at once.
    """
    with World(tmp_path, splits=120) as world, Evidence(world) as evidence:
        kill_planner_half_way(world)
        master, members = world.master(), world.workers()
        master.wait_for("running")
        evidence.wait_for_batches("orders", "cold", more=1)
        kill_and_replace(world, evidence, members, "orders")
        kill_and_replace(world, evidence, members, "history")
        master = replace_master(world, evidence, master)
        kill_and_replace(world, evidence, members, "archive", "cold")
        kill_and_replace(world, evidence, members, "live")
        master = replace_master(world, evidence, master, members, "history")
        finish(world, evidence, master, members.values())
        check_readings(world, killed=8)


def kill_planner_half_way(world: World) -> None:
    """Kill a planner that has opened some logs but has not prepared the job for workers."""
    planner = world.start("plan", env={"CKPT_WORKERS_OPEN_SECONDS": "2"})
    logs = world.root / world.job_id / "vertices"
    wait_until(lambda: len(list(logs.glob("*/0/log/00000000.json"))) >= 2, planner.tail, seconds=PATIENCE)
    planner.kill()
    assert not world.state().deployment, "the planner was killed too late to show anything"


def replace_master(
    world: World, evidence: Evidence, master: Member, members: dict[str, Member] | None = None, *killed: str
) -> Member:
    """Kill the master, optionally with workers, and start another one. No other worker restarts.

    Subtasks that read splits begin a new attempt in the same process.
    """
    before = {vertex: evidence.attempts(vertex) for vertex in VERTICES}
    alive = [member for member in world.members if member.exit_code is None and member is not master]
    master.kill()
    successor = world.master()  # no splits are assigned without a master
    if members is not None:
        kill_and_replace(world, evidence, members, *killed, master=True)
        alive = [member for member in alive if member.exit_code != -9]
    successor.wait_for("running")
    evidence.wait_for_batches(*VERTICES)
    for vertex in {*VERTICES} - {"history", "archive", *killed}:
        assert evidence.attempts(vertex) == before[vertex], f"{vertex} began again for another master"
    assert all(member.exit_code is None for member in alive), "a worker left"
    return successor
