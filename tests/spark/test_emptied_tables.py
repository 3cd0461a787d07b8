"""A table of files that somebody empties while its job is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.harness import Run, World
from tests.spark.jobs import mixed

pytestmark = pytest.mark.slow


def warned(run: Run) -> list[str]:
    return [line["message"] for line in run.of("warning") if "its last release" in line["message"]]


def test_a_start_warns_of_a_table_that_was_emptied(world: World) -> None:
    expected = world.put_ids("history", 1, 2) | world.put_ids("live", 1, 2, 1000)
    stopped = world.run(mixed(world), world.ask("stop", lambda: world.released_count() == len(expected)))
    assert (stopped.status, warned(stopped)) == ("STOPPED", [])
    for file in Path(world.path("out")).glob("part-*"):
        file.unlink()
    world.put_ids("live", 1, 2, 2000)
    run = world.run(mixed(world), world.ask("drain", lambda: True))
    assert (run.status, run.cause) == ("FINISHED", None)
    [told] = warned(run)
    assert told.startswith("sink out: no file of its last release, checkpoint ")
    assert len([*Path(world.path("out")).glob("part-*")]) > 0
