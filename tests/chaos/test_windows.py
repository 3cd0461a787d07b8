"""kill -9 exactly between two related steps: the next driver completes or undoes the first one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos import windows
from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.evidence import Evidence
from tests.chaos.released import check_no_duplicates
from tests.chaos.world import Variant, World

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"), last_vertex="doubled")
SLOW = Variant("mixed", "mixed.py", ("out", "copy"), env={"CKPT_CHAOS_RELEASE_SECONDS": "0.1"})
COUNTS = Variant("counts", "counts.py", ("out",), counts=True, last_vertex="counts")


@pytest.mark.parametrize(
    ("window", "variant", "second"),
    [
        (windows.committed_not_published, COUNTS, False),
        (windows.prepared_not_committed, COUNTS, False),
        (windows.completed_not_released, MIXED, False),
        (windows.moved_not_in_a_manifest, SLOW, False),
        (windows.ended_not_dropped, MIXED, False),
        (windows.dropped_not_restarted, COUNTS, False),
        (windows.claimed_not_opened, MIXED, True),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_kill_between_two_steps_leaves_nothing_half_done(
    window: windows.Window, variant: Variant, second: bool, tmp_path: Path
) -> None:
    """Kill a driver inside a window (R1, R2, R8, R9). ``second``: kill the driver that takes over."""
    with World(tmp_path, variant) as world:
        evidence = Evidence(world)
        with Feeder(world.data):
            driver = world.start()
            if second:
                driver.wait_for("released", count=2)
                driver.kill("all")
                driver.wait()
                driver = world.start()
            assert windows.stop_in(window, world, driver), driver.tail()
            driver.kill("all")
            assert driver.wait() == -signal.SIGKILL
            evidence.gather()
            check_no_duplicates(world)
            last = world.start()
            last.wait_for("released", count=3)
        finish(world, last, evidence)
