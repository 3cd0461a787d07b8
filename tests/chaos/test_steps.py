"""Kills of a batch job at each step in turn, right before or after it. Results are lost meanwhile.

``CKPT_CHAOS_STEPS``: number of the cases to run, drawn by ``CKPT_CHAOS_SEED`` (default: all). The seed also decides
which results are lost, and where the next run is killed.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.chaos.conftest import PARTS
from tests.chaos.parts_steps import RECONCILED, STEPS
from tests.chaos.results import Results, lose, readings
from tests.chaos.retained import Outcome, check_retained, outcome
from tests.chaos.world import Driver, World
from tests.support.processes import stands_still
from tests.support.storage_steps import StorageStep, stop_environ
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

SEED = int(os.environ.get("CKPT_CHAOS_SEED", "1"))
WHEN = ("before", "after")
CASES = [(step, when) for step in STEPS for when in WHEN]
COUNT = min(len(CASES), int(os.environ.get("CKPT_CHAOS_STEPS", len(CASES))))
CHOSEN = [CASES[place] for place in sorted(random.Random(SEED).sample(range(len(CASES)), COUNT))]


@pytest.mark.parametrize(("step", "when"), CHOSEN, ids=str)
def test_a_batch_job_survives_kills_at_a_step(step: StorageStep, when: str, wanted: Outcome, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {step} {when}")
    kills = [(step, when)]
    if rng.random() < 0.6:
        kills.append((rng.choice([RECONCILED, *STEPS]), rng.choice(WHEN)))
    steps = [f"CKPT_CHAOS_SEED={SEED}"]
    with World(tmp_path, PARTS, history_files=0) as world:
        try:
            for kill in kills:
                steps.append(f"kill {kill[1]} this: {kill[0]}")
                driver = _run(world, *kill)
                assert driver.exit_code != 0 or kill is not kills[0], f"it did not reach {step}"
                steps += lose(Results(world.storage, world.root), rng)
            assert _run(world).exit_code == 0
            assert world.state().status == "FINISHED"
            assert outcome(world).rows == wanted.rows
            check_retained(world, wanted.files)
        except AssertionError as error:
            raise AssertionError(f"{'; '.join(steps)}\n{error}") from error
        finally:
            print("; ".join(steps))


def _run(world: World, step: StorageStep | None = None, when: str = "") -> Driver:
    """Run a driver until the step, or to its end if the step does not come.

    Check that it reads only the necessary splits.
    """
    before = Results(world.storage, world.root)
    to_read = {source: before.to_read(source) for source in ("left", "right")}
    driver = world.start(env=stop_environ(step, after=when == "after"))
    wait_until(lambda: stands_still(driver.pid) or driver.exit_code is not None, driver.tail, seconds=180)
    if driver.exit_code is None:
        assert step is not None
        driver.kill("all")
        assert driver.wait() == -signal.SIGKILL
        wait_until(lambda: not driver.session(), driver.tail)
        was_first = len(world.drivers) == 1
        assert step.is_done(world.base) is (when == "after") or not was_first, f"{step}: not what is seen from outside"
    else:
        assert driver.exit_code == 0, driver.tail()
    read = [(source, split) for process, source, split in readings(world.base) if process == driver.pid]
    assert len(read) == len(set(read)), f"read twice by one driver: {read}"
    again = {(source, split) for source, split in read if split not in to_read[source]}
    assert not again, f"read again, though nothing of it was lost: {again}\n{driver.tail()}"
    return driver
