"""The successful end of every chaos test: all input released, drained, compared."""

from __future__ import annotations

import time

from tests.chaos.evidence import Evidence
from tests.chaos.released import check_exactly_once, missing
from tests.chaos.world import Driver, World
from tests.support.waiting import wait_until

GIVE_UP_AFTER, AND_SECONDS = 100, 60.0
"""Checkpoints and seconds without a newly released row, after which the missing rows count as lost.

The comparison then names them. On a slow machine the first micro-batch of a driver takes more than a hundred
checkpoints of 0.1 s.
"""


def wait_for_all(world: World) -> None:
    """Wait until all input is released, or until the missing rows count as lost."""
    best, since, at = missing(world), world.state().last_released, time.monotonic()

    def settled() -> bool:
        nonlocal best, since, at
        left, released = missing(world), world.state().last_released
        if left < best:
            best, since, at = left, released, time.monotonic()
        return left == 0 or (released > since + GIVE_UP_AFTER and time.monotonic() > at + AND_SECONDS)

    wait_until(settled, lambda: f"all input released ({best} rows are missing)", seconds=400, every=0.5)


def finish(world: World, driver: Driver, evidence: Evidence | None = None) -> None:
    """Drain the job and check its output. ``driver``: the last one. No input is added any longer."""

    wait_for_all(world)
    assert driver.exit_code is None, f"{driver} ended with {driver.exit_code}\n{driver.tail()}"
    world.drain()
    assert driver.wait() == 0, driver.tail()
    assert world.state().status == "FINISHED"
    gathered = evidence or Evidence(world)
    gathered.gather()
    gathered.check()
    check_exactly_once(world)
