"""Files that a Spark job leaves under its root: their number depends on retention, not on the job's age."""

from __future__ import annotations

import os

import pytest

from tests.soak.census import table
from tests.soak.spark_soak import SparkSoak
from tests.spark.harness import World
from tests.spark.jobs import mixed

CHECKPOINTS = int(os.environ.get("CKPT_SOAK_CHECKPOINTS", "10000"))
RUNS = int(os.environ.get("CKPT_SOAK_RUNS", "10"))
MOST, MOST_FOR_ANOTHER = 300, 60
"""Most files under the root of a job of one vertex with three retained checkpoints, and for each further vertex."""


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("vertices", [1, 2])
@pytest.mark.parametrize("each", [0, 10], ids=["idle", "busy"])
def test_an_old_root_has_no_more_files_than_a_young_one(world: World, vertices: int, each: int) -> None:
    """Compare young and old roots. ``each``: checkpoints between two files of the live feed; 0: no files."""
    world.put_ids("history", files=5, each=10)
    files = iter(range(1_000_000, 10_000_000, 10))

    def feed(checkpoints: int) -> None:
        if each and checkpoints % each == 0:
            world.put_ids("live", files=1, each=10, start=next(files))

    feed(0)
    taken = SparkSoak(world, lambda: mixed(world, chain=vertices == 1), feed).live(CHECKPOINTS, RUNS)
    print(f"\n{table(taken)}")
    assert max(age.figures["files, at most"] for age in taken) <= MOST + MOST_FOR_ANOTHER * (vertices - 1)
