"""What happens to the drivers of a random job, from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from tests.chaos.schedule import FILES, STATUSES, Kill

Deed = Literal["kill", "stop", "take over", "pause"]


@dataclass(frozen=True)
class Step:
    """At the moment of ``kill`` the driver is killed; or asked to stop; or a second one is started beside it; or it
    stands still on another host while a second one takes over, and wakes when that has completed a checkpoint.
    ``restore``: the next driver goes back to the last completed checkpoint."""

    deed: Deed
    kill: Kill
    restore: bool

    def __str__(self) -> str:
        return f"{self.deed}: {self.kill}" + (", then restore" if self.restore else "")


def steps(seed: int) -> tuple[Step, ...]:
    rng = random.Random(seed * 7 + 1)
    found = []
    for _ in range(rng.randint(1, 4)):
        deed: Deed = rng.choice(["kill", "kill", "kill", "stop", "take over", "pause"])
        moment = rng.choice([*FILES, *STATUSES])
        count = rng.randint(1, 10) if moment in FILES else rng.randint(1, 3)
        if moment in ("started", "running", "source_ended", "source_dropped"):
            count = 1
        delay = rng.choice([0.0, rng.uniform(0, 0.03), rng.uniform(0, 1.0)])
        target = "all" if deed != "kill" else rng.choice(["python", "jvm", "all", "all"])
        found.append(Step(deed, Kill(target, moment, count, delay), rng.random() < 0.15))
    return tuple(found)
