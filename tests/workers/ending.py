"""The good end of every test here."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.waiting import wait_until
from tests.workers.evidence import Evidence, released
from tests.workers.world import PATIENCE, Member, World


def wait_for_all(world: World) -> None:
    """Every row that was fed has been released."""

    def missing() -> int:
        return sum(len(set(world.expected(sink)) - set(released(world, sink))) for sink in ("lake", "cellar"))

    wait_until(
        lambda: missing() == 0,
        lambda: f"all is released, {missing()} rows are missing\n" + "\n".join(m.tail(1500) for m in world.members),
        seconds=PATIENCE,
        every=0.5,
    )


def finish(world: World, evidence: Evidence, master: Member, living: Iterable[Member]) -> None:
    """The splits are read, all is released, then the job is drained: everybody leaves, and says that all is well."""
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
