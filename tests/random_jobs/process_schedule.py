"""Faults of a random job's drivers, drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from tests.chaos.schedule import FILES, STATUSES, Kill

Deed = Literal["kill", "stop", "take over", "pause"]


@dataclass(frozen=True)
class Step:
    """One step at the moment of ``kill``.

    "kill": the driver is killed. "stop": it gets a stop request. "take over": a second driver starts next to it.
    "pause": the driver pauses on another host while a second one takes over. It wakes after the second one has
    completed a checkpoint. ``restore``: the next driver returns to the last completed checkpoint.
    """

    deed: Deed
    kill: Kill
    restore: bool

    def __str__(self) -> str:
        return f"{self.deed}: {self.kill}" + (", then restore" if self.restore else "")


def steps(seed: int) -> tuple[Step, ...]:
    rng = random.Random(seed * 7 + 1)
    drawn = []
    for _ in range(rng.randint(1, 4)):
        deed: Deed = rng.choice(["kill", "kill", "kill", "stop", "take over", "pause"])
        moment = rng.choice([*FILES, *STATUSES])
        count = rng.randint(1, 10) if moment in FILES else rng.randint(1, 3)
        if moment in ("started", "running", "source_ended", "source_dropped"):
            count = 1
        delay = rng.choice([0.0, rng.uniform(0, 0.03), rng.uniform(0, 1.0)])
        target = "all" if deed != "kill" else rng.choice(["python", "jvm", "all", "all"])
        drawn.append(Step(deed, Kill(target, moment, count, delay), rng.random() < 0.15))
    return tuple(drawn)
