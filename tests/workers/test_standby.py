"""A standby worker that resumes the subtasks of a killed worker. The restarted worker then stands by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.ending import finish
from tests.workers.evidence import Evidence
from tests.workers.world import Member, World

FIRST, SECOND = ("history", "archive", "live"), ("orders", "cold")


def standby(world: World) -> Member:
    asked = [each for vertex in SECOND for each in ("--subtask", vertex)]
    return world.start("worker", *asked, "--standby")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_standby_worker_replaces_a_killed_worker(tmp_path: Path) -> None:
    with World(tmp_path, splits=30) as world, Evidence(world) as evidence:
        master, first, two = world.master(), world.worker(*FIRST), standby(world)
        master.wait_for("running")
        assert two.wait_for("started")["subtasks"] == ["orders/0", "cold/0"], "nobody ran them"
        spare = standby(world)
        spare.wait_for("waiting")
        before = {vertex: len(evidence.attempts(vertex)) for vertex in (*FIRST, *SECOND)}
        evidence.wait_for_batches("orders", "cold", more=1)
        assert spare.lines("started") == [], "it waits as long as the other one lives"
        two.kill()
        again = standby(world)
        assert spare.wait_for("started")["subtasks"] == ["orders/0", "cold/0"]
        evidence.wait_for_batches("live", "orders", "cold")
        again.wait_for("waiting")
        evidence.wait_for_batches("orders", "cold")
        now = {vertex: len(evidence.attempts(vertex)) for vertex in (*FIRST, *SECOND)}
        assert now == {vertex: count + (vertex in SECOND) for vertex, count in before.items()}
        finish(world, evidence, master, [first, spare, again])
        assert again.lines("started") == []
