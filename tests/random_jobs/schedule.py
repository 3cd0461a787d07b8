"""Faults of a random job, drawn from the seed: runs that end badly, before the one that may finish it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.testing.crash import When

End = Literal["fault", "stop", "finish"]


@dataclass(frozen=True)
class RunPlan:
    """One run. ``end`` "fault": the storages are gone from verb ``at`` on (``once``: for that verb only).

    "stop": a stop is requested at status line number ``at``. "finish": no fault. ``restore``: return to the last
    completed checkpoint. ``drains``: the job may be drained once everything was read.
    """

    end: End
    at: int = 0
    when: When = "before"
    once: bool = False
    restore: bool = False
    drains: bool = False


@dataclass(frozen=True)
class Schedule:
    """The runs of a job. ``feeding``: probability that a live file is added at a status line.

    ``deletes``: folders of ended sources are deleted between two runs, because no run may read them again. ``loses``:
    results of a batch job are lost between two runs.
    """

    runs: tuple[RunPlan, ...]
    feeding: float
    deletes: bool
    loses: bool = False


def random_schedule(seed: int) -> Schedule:
    rng = random.Random(~seed)
    runs = []
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        end: End = rng.choice(["fault", "fault", "fault", "stop"])
        runs.append(
            RunPlan(
                end=end,
                at=rng.choice([rng.randint(1, 60), rng.randint(1, 200)]) if end == "fault" else rng.randint(1, 8),
                when=rng.choice(["before", "after"]),
                once=rng.random() < 0.2,
                restore=rng.random() < 0.15,
                drains=rng.random() < 0.5,
            )
        )
    runs.append(RunPlan("finish", restore=rng.random() < 0.1, drains=True))
    restores = any(run.restore for run in runs)
    feeding, deletes = rng.choice([0.3, 0.6, 1.0]), not restores and rng.random() < 0.3
    return Schedule(tuple(runs), feeding, deletes, loses=not deletes and rng.random() < 0.6)
