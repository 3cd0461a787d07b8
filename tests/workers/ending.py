"""The successful end that every test here shares."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.workers.evidence import Evidence, released_ids
from tests.workers.world import PATIENCE, Member, World


def wait_for_all(world: World) -> None:
    """Wait until every fed row is released. Fail if no row arrives for PATIENCE seconds."""
    best, since = missing(world), time.monotonic()
    while best:
        time.sleep(1.0)
        left = missing(world)
        if left < best:
            best, since = left, time.monotonic()
        stuck = time.monotonic() - since > PATIENCE
        assert not stuck, f"{best} rows are missing\n" + "\n".join(member.tail(1500) for member in world.members)


def missing(world: World) -> int:
    return sum(len(set(world.expected(sink)) - set(released_ids(world, sink))) for sink in ("lake", "cellar"))


def finish(world: World, evidence: Evidence, master: Member, living: Iterable[Member]) -> None:
    """Read all splits, release all rows and drain the job. Check that every process exits with 0."""
    world.slow(False)
    evidence.stop_feeding()
    wait_for_all(world)
    world.client.drain()
    assert master.wait(PATIENCE) == 0, master.tail()
    for member in living:
        assert member.wait(PATIENCE) == 0, member.tail()
    assert world.state().status == "FINISHED"
    evidence.check()
    evidence.check_released()
