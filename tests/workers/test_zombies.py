"""Zombies: processes that resume next to their successors, twins, and processes that are asked to leave."""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support.processes import session_members
from tests.support.waiting import wait_until
from tests.workers.ending import finish
from tests.workers.evidence import Evidence
from tests.workers.world import GROUPS, PATIENCE, VERTICES, Member, World

pytestmark = [pytest.mark.workers, pytest.mark.timeout(1800)]
BY_SPLIT = ("history", "archive")


def check_untouched(evidence: Evidence, before: dict[str, int], but: Collection[str]) -> None:
    now = {vertex: len(evidence.attempts(vertex)) for vertex in VERTICES}
    began = {vertex for vertex in VERTICES if now[vertex] != before[vertex]}
    assert began <= set(but), f"attempts {before} -> {now}, only {but} may have begun again"


def count(evidence: Evidence) -> dict[str, int]:
    return {vertex: len(evidence.attempts(vertex)) for vertex in VERTICES}


def test_only_the_newest_attempt_of_frozen_and_twin_workers_counts(tmp_path: Path) -> None:
    """A frozen worker counts as lost and is replaced, and then resumes. Later a twin of the replacement starts.

    The worker that opened the log last has the subtask. The other one leaves and reports why.
    """
    with World(tmp_path, splits=120) as world, Evidence(world) as evidence:
        master, members = world.master("--lost-after", "5s"), world.workers(GROUPS)
        master.wait_for("running")
        evidence.wait_for_batches(*VERTICES, more=1)
        before, zombie = count(evidence), members["live"]
        zombie.freeze()
        assert "live/0" in master.wait_for("subtask_restarting")["message"]
        successor = world.worker("live")
        evidence.wait_for_attempt("live", before["live"] + 1)
        evidence.wait_for_batches("live", "orders")
        zombie.thaw()
        check_overtaken(zombie)
        evidence.wait_for_batches(*VERTICES)
        check_untouched(evidence, before, ["live"])
        twin = world.worker("live")
        evidence.wait_for_attempt("live", before["live"] + 2)
        check_overtaken(successor)
        members["live"] = twin
        evidence.wait_for_batches(*VERTICES)
        check_untouched(evidence, before, ["live"])
        finish(world, evidence, master, members.values())


def check_overtaken(worker: Member) -> None:
    assert worker.wait(PATIENCE) == 1, worker.tail()
    assert "live/0" in worker.lines("fenced")[-1]["message"]
    wait_until(lambda: not session_members(worker.pid), "the end of its JVM")


def test_workers_outlive_their_jobmasters_and_leave_on_request(tmp_path: Path) -> None:
    """A master on another host is frozen, and resumes next to its successor. Then there is no master for a while.

    At last a worker, and the JVM of another one, end while a master is there.
    """
    with World(tmp_path, splits=120) as world, Evidence(world) as evidence:
        zombie, members = world.master(CKPT_WORKERS_HOST="another-host"), world.workers(GROUPS)
        zombie.wait_for("running")
        evidence.wait_for_batches(*VERTICES, more=1)
        before = count(evidence)
        zombie.freeze()
        master = world.master()
        assert master.wait_for("resumed")["driver_before"] == "unreachable"
        master.wait_for("running")
        master.wait_for("released", count=3)
        zombie.thaw()
        assert zombie.wait(PATIENCE) == 1, zombie.tail()
        assert zombie.lines("fenced"), zombie.tail()
        master.kill()
        evidence.wait_for_batches("live", "orders", "cold", more=5)
        master = world.master()
        master.wait_for("running")
        evidence.wait_for_batches(*VERTICES)
        check_untouched(evidence, before, BY_SPLIT)
        assert all(member.exit_code is None for member in members.values())
        before = count(evidence)
        members["live"] = ask_to_leave(world, master, members["live"])
        evidence.wait_for_batches(*VERTICES)
        members["orders+cold"] = without_jvm(world, members["orders+cold"])
        evidence.wait_for_batches(*VERTICES)
        check_untouched(evidence, before, ["live", "orders", "cold"])
        finish(world, evidence, master, members.values())


def ask_to_leave(world: World, master: Member, worker: Member) -> Member:
    """Send SIGTERM: the worker leaves at a boundary.

    The run continues without it, although nothing may restart (R15).
    """
    worker.terminate()
    assert worker.wait(PATIENCE) == 1
    assert "asked to stop" in worker.lines("stopped")[-1]["message"], worker.tail()
    assert "live/0" in master.wait_for("subtask_restarting")["message"]
    assert "live/0" in master.wait_for("waiting")["message"]
    return world.worker("live")


def without_jvm(world: World, worker: Member) -> Member:
    """Kill the worker's JVM: the worker is lost, but the run is not."""
    worker.signal(signal.SIGKILL, worker.jvms())
    assert worker.wait(PATIENCE) == 1, worker.tail()
    assert "Spark" in worker.lines("failed")[-1]["message"], worker.tail()
    return world.worker("orders", "cold")
