"""A job with a sink of each kind. Its driver is killed, fenced, or loses a server, before and after each step.

``CKPT_TOGETHER_STEPS``: number of cases, drawn with ``CKPT_TOGETHER_SEED`` (default: all).
"""

from __future__ import annotations

import os
import random

import pytest

from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.sinks_together.steps import SINKS, STEPS
from tests.sinks_together.world import World, go_on, kill

pytestmark = pytest.mark.timeout(7200)

SEED = int(os.environ.get("CKPT_TOGETHER_SEED", "1"))
WHEN = ("before", "after")


def drawn(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return cases in the seed's order. Each case starts from the job as the cases before have left it."""
    count = min(len(cases), int(os.environ.get("CKPT_TOGETHER_STEPS", len(cases))))
    return random.Random(SEED).sample(cases, count)


KILLS = drawn([(step, when) for step in STEPS for when in WHEN])
ZOMBIES = drawn([(step, when) for step in STEPS for when in WHEN if step.split()[0] not in ("stage",)])


def test_a_driver_killed_around_any_step_releases_each_row_once(world: World) -> None:
    chance = random.Random(SEED)
    world.put_history(8)
    story = [f"CKPT_TOGETHER_SEED={SEED}"]
    try:
        for step, when in KILLS:
            times = chance.choice([1, 1, 2, 3])
            story.append(f"killed {when} {step}, the {times}. time")
            kill(world.until_step(step, after=when == "after", times=times))
            check_nothing_twice(world)
        world.finish()
        world.check_all()
        check_computed(world)
    except AssertionError as error:
        raise AssertionError(f"{'; '.join(story)}\n{error}") from error


def test_a_zombie_that_resumes_at_any_step_releases_nothing_twice(world: World) -> None:
    world.put_history(8)
    story = [f"CKPT_TOGETHER_SEED={SEED}"]
    try:
        for step, when in ZOMBIES:
            story.append(f"stopped {when} {step}")
            zombie = world.until_step(step, after=when == "after", host="another-host")
            successor = world.start({})
            world.put_live()
            world.until_all_is_released(successor)
            go_on(zombie)
            assert zombie.wait() == ExitCode.FENCED.coarse, zombie.tail()
            assert "was taken over" in zombie.tail()
            world.put_live()
            world.until_all_is_released(successor)
            check_nothing_twice(world)
            kill(successor)
        world.finish()
        world.check_all()
        check_computed(world)
    except AssertionError as error:
        raise AssertionError(f"{'; '.join(story)}\n{error}") from error


@pytest.mark.parametrize("which", ["table", "mariadb", "topic"])
def test_a_release_waits_for_a_killed_server(world: World, which: str) -> None:
    """The other sinks continue, and the driver does not end.

    A batch that is being staged fails; only its query restarts.
    """
    world.put_history(6)
    driver = world.until_step(f"inside {which}", after=False, times=2, flags=("--restart-attempts", "20"))
    servers = {
        "table": (world.server.crash, world.server.launch),
        "mariadb": (world.maria.crash, world.maria.launch),
        "topic": (world.broker.kill, world.broker.start),
    }
    die, come_back = servers[which]
    die()
    go_on(driver)
    come_back()
    world.put_live()
    world.until_all_is_released(driver)
    world.files.request("drain")
    assert driver.wait(240) == 0, driver.tail()
    world.check_all()


def check_nothing_twice(world: World) -> None:
    """Assert, at any moment, that no target shows a row twice."""
    for sink in SINKS:
        shown = world.shown(sink)
        assert len(shown) == len(set(shown)), f"{sink} shows rows twice"
        assert set(shown) <= world.ids, f"{sink} shows rows that nobody has given"
    assert world.differ() == 0, "the tables of one transaction differ"


def check_computed(world: World) -> None:
    """Assert that all sinks show the same random values, because each micro-batch is computed once for all of them."""
    computed = world.computed()
    assert all(rows == computed["files"] for rows in computed.values())
