"""Lost results of a batch job between two runs."""

from __future__ import annotations

import random

from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from tests.spark.harness import World


def lose_results(world: World, rng: random.Random, share: float = 0.3) -> list[str]:
    """Delete or empty this share of the job's result files, if the job can make them again. Return their names."""
    state = world.state()
    is_batch = state.plan is not None and state.definition is not None and state.definition.mode == "batch"
    if not is_batch or not nothing_is_covered(state):
        return []
    lost = []
    for path in sorted((world.root / world.job_id / "vertices").glob("*/*/partition/**/part-*.parquet")):
        if rng.random() < share:
            path.unlink() if rng.random() < 0.7 else path.write_bytes(b"")
            lost.append(str(path.relative_to(world.root)))
    return lost
