"""Results of a job in batch mode that go away between two of its runs."""

from __future__ import annotations

import random

from tests.spark.harness import World


def lose_results(world: World, rng: random.Random, share: float = 0.3) -> list[str]:
    """Delete or empty this share of the data files of its result partitions, if it may still make them again; their
    names."""
    state = world.state()
    if state.plan is None or state.definition is None or state.definition.mode != "batch" or state.last_completed:
        return []
    lost = []
    for path in sorted((world.root / world.job_id / "vertices").glob("*/*/partition/**/part-*.parquet")):
        if rng.random() < share:
            path.unlink() if rng.random() < 0.7 else path.write_bytes(b"")
            lost.append(str(path.relative_to(world.root)))
    return lost
