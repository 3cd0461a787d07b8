"""A seeded list of kills, each at a moment that leaves something half done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.world import Driver, World

PATIENCE = 30.0
"""Seconds after which a kill comes anyway, because its moment may have passed in an earlier run."""

FILES = {
    "journal entry": "ckpt/{job}/journal/*",
    "log entry": "ckpt/{job}/vertices/*/0/log/*",
    "planned batch": "ckpt/{job}/vertices/*/0/spark/*/offsets/[0-9]*",
    "committed batch": "ckpt/{job}/vertices/*/0/spark/*/commits/[0-9]*",
    "prepared batch": "ckpt/{job}/vertices/*/0/prepared/*.json",
    "spark folder": "ckpt/{job}/vertices/*/0/spark/*.json",
    "staged batch": "_ckpt-*/{job}/*/staging/*",
    "released file": "{sink}/part-*",
    "manifest": "_ckpt-*/{job}/*/manifests/*.json",
    "partition data": "ckpt/{job}/vertices/*/0/partition/**/*.parquet",
}
LIST = "frozen list"
ONCE = {LIST: "ckpt/{job}/frozen/*"}
"""Files that a job writes once. Seeded schedules do not wait for them."""
STATUSES = ("started", "running", "checkpoint", "released", "source_ended", "source_dropped")
TARGETS = ("python", "jvm", "all", "all")


@dataclass(frozen=True)
class Kill:
    """A kill of ``target``, ``delay`` seconds after a moment.

    ``moment``: a file or a status line, counted since the driver was started. ``count``: which occurrence.
    """

    target: str
    moment: str
    count: int
    delay: float

    def __str__(self) -> str:
        return f"kill {self.target} {self.delay * 1000:.0f} ms after {self.moment} #{self.count}"


def random_kills(seed: int) -> list[Kill]:
    rng = random.Random(seed)
    kills = []
    for _ in range(rng.randint(2, 4)):
        moment = rng.choice([*FILES, *STATUSES])
        count = rng.randint(1, 12) if moment in FILES else rng.randint(1, 4)
        if moment in ("started", "running", "source_ended", "source_dropped"):
            count = 1
        delay = rng.choice([0.0, rng.uniform(0, 0.03), rng.uniform(0, 1.5)])
        kills.append(Kill(rng.choice(TARGETS), moment, count, delay))
    return kills


def carry_out(kill: Kill, world: World, driver: Driver, seen: Callable[[], int]) -> bool:
    """Wait for the moment, then kill. Return False if the driver ended before."""
    deadline = time.monotonic() + PATIENCE
    while seen() < kill.count and time.monotonic() < deadline:
        if driver.ended_within(0.002):
            return False
    if driver.ended_within(kill.delay):
        return False
    driver.kill(kill.target)
    return True


def counter(kill: Kill, world: World, driver: Driver, before: frozenset[tuple[str, int]]) -> Callable[[], int]:
    """Return a function that counts the moment's occurrences since ``before`` (:func:`glance`)."""
    if kill.moment in FILES or kill.moment in ONCE:
        return lambda: len(glance(kill, world) - before)
    kinds = ("started", "resumed") if kill.moment == "started" else (kill.moment,)
    return lambda: len(driver.lines(*kinds))


def glance(kill: Kill, world: World) -> frozenset[tuple[str, int]]:
    """Return the files of the moment and the time each was written."""
    files = set()
    pattern = {**FILES, **ONCE}.get(kill.moment)
    if pattern is None:
        return frozenset()
    for path in _paths(world, pattern.format(job=world.job_id, sink=world.variant.sinks[0])):
        try:
            files.add((str(path), path.stat().st_mtime_ns))
        except FileNotFoundError:
            continue  # the file was moved or deleted meanwhile
    return frozenset(files)


def _paths(world: World, pattern: str) -> list[Path]:
    while True:
        try:
            return list(world.base.glob(pattern))
        except FileNotFoundError:
            continue  # a folder was deleted while it was listed
