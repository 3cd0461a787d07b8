"""The good end of every chaos test: all input released, drained, compared."""

from __future__ import annotations

from tests.chaos.evidence import Evidence
from tests.chaos.released import check_exactly_once, is_complete
from tests.chaos.world import Driver, World
from tests.support.waiting import wait_until


def finish(world: World, driver: Driver, evidence: Evidence | None = None) -> None:
    """``driver`` is the last one, and no input is added any more."""

    def done() -> bool:
        assert driver.exit_code is None, f"{driver} ended with {driver.exit_code}\n{driver.tail()}"
        return is_complete(world)

    wait_until(done, lambda: f"everything released\n{driver.tail()}", seconds=400, every=0.5)
    world.drain()
    assert driver.wait() == 0, driver.tail()
    assert world.state().status == "FINISHED"
    gathered = evidence or Evidence(world)
    gathered.gather()
    gathered.check()
    check_exactly_once(world)
