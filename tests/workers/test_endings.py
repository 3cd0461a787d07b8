"""Ends of a job with workers: stopped and resumed, taken over by one driver, in batch mode; and refused workers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.workers.ending import finish, wait_for_all
from tests.workers.evidence import Evidence
from tests.workers.world import GROUPS, PATIENCE, VERTICES, Member, World

pytestmark = [pytest.mark.workers, pytest.mark.timeout(1800)]
REFUSED = 2


def check_left(members: Iterable[Member], code: int) -> None:
    for member in members:
        assert member.wait(PATIENCE) == code, member.tail()


def test_a_stopped_job_resumes_with_other_processes(tmp_path: Path) -> None:
    """The stop ends all processes. The next ones resume from the savepoint and read nothing again."""
    with World(tmp_path, splits=120) as world, Evidence(world) as evidence:
        master, members = world.master(), world.workers(GROUPS)
        master.wait_for("running")
        for member in members.values():
            line = member.lines("started")[0]
            assert line["outputs"] == {name: str(world.base / name) for name in ("lake", "cellar")}, line
            assert "spark_ui" in line, "none here, where Spark is told to have no UI"
        evidence.wait_for_batches(*VERTICES, more=1)
        world.client.stop()
        check_left([master, *members.values()], 0)
        assert world.state().status == "STOPPED"
        evidence.check()
        released = world.state().last_released
        master, members = world.master(), world.workers(GROUPS)
        assert f"from checkpoint {released}" in master.wait_for("resumed")["message"]
        finish(world, evidence, master, members.values())


def test_one_driver_takes_over_from_jobmaster_and_workers(tmp_path: Path) -> None:
    with World(tmp_path, splits=120) as world, Evidence(world) as evidence:
        world.plan()
        check_refused(world)
        master, members = world.master("--no-plan"), world.workers(GROUPS)
        master.wait_for("running")
        evidence.wait_for_batches(*VERTICES, more=1)
        driver = world.start("run")
        driver.wait_for("running")
        check_left([master, *members.values()], 1)
        for member in (master, *members.values()):
            assert f"epoch {world.state().epoch}" in member.lines("fenced")[-1]["message"]
        finish(world, evidence, driver, [])


def check_refused(world: World) -> None:
    """Start a worker with a mistyped subtask and one with a changed job.

    Each is refused with the difference, and begins nothing.
    """
    mistyped, changed = world.worker("histroy/0"), world.worker("cold", CKPT_WORKERS_CHANGED="1")
    assert mistyped.wait(PATIENCE) == REFUSED, mistyped.tail()
    assert "histroy/0" in mistyped.lines("refused")[0]["message"]
    assert "history/0" in mistyped.lines("refused")[0]["message"]
    assert changed.wait(PATIENCE) == REFUSED, changed.tail()
    assert "the output of 'cold' changed" in changed.lines("refused")[0]["message"]


def test_a_batch_job_finishes_though_worker_and_jobmaster_are_killed(tmp_path: Path) -> None:
    bounded = {"CKPT_WORKERS_BOUNDED": "1"}
    with World(tmp_path, "--mode", "batch", splits=20) as world:
        master = world.master(**bounded)
        readers, others = (
            world.worker("history", "archive", **bounded),
            world.worker("live", "orders", "cold", **bounded),
        )
        master.wait_for("running")
        for process in (readers, master):
            process.kill()
        world.slow(False)
        master, readers = world.master(**bounded), world.worker("history", "archive", **bounded)
        check_left([master, readers, others], 0)
        assert world.state().status == "FINISHED"
        wait_for_all(world)
        evidence = Evidence(world)
        evidence.check()
        evidence.check_released()
