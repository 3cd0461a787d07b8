"""kill -9 of real drivers at seeded moments; the output must be exact whatever was interrupted.

``CKPT_CHAOS_ROUNDS`` schedules (default 10) run from seed ``CKPT_CHAOS_SEED`` (default 1) on. Each round takes the next
kind of job. To repeat one: ``CKPT_CHAOS_SEED=<seed> CKPT_CHAOS_ROUNDS=1``.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.evidence import Evidence
from tests.chaos.released import check_no_duplicates
from tests.chaos.schedule import LIST, Kill, carry_out, counter, glance, random_kills
from tests.chaos.world import Driver, Variant, World

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

FIRST_SEED = int(os.environ.get("CKPT_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("CKPT_CHAOS_ROUNDS", "10"))
VARIANTS = (
    Variant("mixed", "mixed.py", ("out", "copy")),
    Variant("counts", "counts.py", ("out",), counts=True),
    Variant("depths", "depths.py", ("out",)),
    Variant("mixed-apart", "mixed.py", ("out", "copy"), chain=False),
    Variant("counts-apart", "counts.py", ("out",), chain=False, counts=True),
)
RETRYABLE = 1


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
def test_every_row_is_released_exactly_once_despite_kills(seed: int, tmp_path: Path) -> None:
    """No kill loses, repeats or blocks anything (R1, R2, R5, R8, R9, R10, R11)."""
    variant = VARIANTS[(seed - 1) % len(VARIANTS)]
    rng = random.Random(-seed)
    interval = rng.choice([0.1, 0.5, 1.0])
    kills = random_kills(seed)
    schedule = f"seed {seed}, {variant.name}, interval {interval}: " + "; ".join(map(str, kills))
    print(schedule)
    with World(tmp_path, variant, checkpoint_interval=interval, retained_checkpoints=rng.choice([1, 3])) as world:
        try:
            _run(world, kills)
        except AssertionError as error:
            raise AssertionError(f"{schedule}\n{error}") from error


@pytest.mark.parametrize("chain", [True, False], ids=["inline", "apart"])
def test_history_and_live_in_one_folder_give_each_row_once(chain: bool, tmp_path: Path) -> None:
    """Files arrive continuously, even while the list of history is being frozen (R11)."""
    kills = [
        Kill("python", LIST, 1, 0.0),
        Kill("all", "planned batch", 3, 0.0),
        Kill("jvm", "prepared batch", 4, 0.0),
        Kill("all", "source_ended", 1, 0.0),
        Kill("all", "manifest", 3, 0.0),
    ]
    variant = Variant("one-folder", "mixed.py", ("out", "copy"), chain=chain, live="history")
    with World(tmp_path, variant) as world:
        _run(world, kills)


def _run(world: World, kills: list[Kill]) -> None:
    evidence = Evidence(world)
    with Feeder(world.data):
        for kill in kills:
            before = glance(kill, world)
            driver = world.start()
            if carry_out(kill, world, driver, counter(kill, world, driver, before)):
                _check_end(driver, kill)
            else:
                assert driver.exit_code == RETRYABLE, f"{driver} ended by itself\n{driver.tail()}"
            evidence.gather()
            check_no_duplicates(world)
            _maybe_add_late_history(world)
        killed_at = time.monotonic()
        last = world.start()
        last.wait_for("checkpoint")
        print(f"first new checkpoint {time.monotonic() - killed_at:.1f} s after the last start")
    finish(world, last, evidence)
    _check_history_was_finished(world)


def _check_end(driver: Driver, kill: Kill) -> None:
    """Check the exit code: a driver that lost its JVM ends by itself, and reports that a retry may help."""
    code = driver.wait()
    expected = (RETRYABLE,) if kill.target == "jvm" else (-9,)
    assert code in expected, f"after {kill}: exit code {code}\n{driver.tail()}"


def _maybe_add_late_history(world: World) -> None:
    if world.variant.live == "history":
        return  # a later file is a live file
    state = world.state()
    left = any("history" in uid for uids in state.dropped.values() for uid in uids)
    if not world.data.late and (left or "history/0" in state.finished):
        world.data.add_late_history()


def _check_history_was_finished(world: World) -> None:
    state = world.state()
    assert "history" in state.finished_operators()
    if world.data.late:
        late = [event for event in state.late_files if event.uid == "history"]
        assert late, "the late file was not reported"
        assert not any(event.read for event in late), "the late file was read"
