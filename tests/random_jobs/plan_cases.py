"""Random jobs whose plans may change values: stateful consumers of results that change, and unlike event times.

Each is refused before anything is written, or gives the rows of the plain batch.
"""

from __future__ import annotations

import random
from dataclasses import replace

from airflow_provider_ckpt.errors import InvalidInputError
from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef, pruned
from tests.random_jobs.generate import DELAY
from tests.random_jobs.in_process import InProcess

KINDS = (
    "sums of counts",
    "history's counts with live rows",
    "event time of one source",
    "duplicates behind a cut",
    "windows of windows",
)


def plan_case(seed: int) -> tuple[str, Definition]:
    """Draw a kind and a job of that kind."""
    rng = random.Random(seed * 67 + 31)
    kind = rng.choice(KINDS)
    return kind, _definition(rng, seed, kind)


def _definition(rng: random.Random, seed: int, kind: str) -> Definition:
    sources = (
        SourceDef("history0", bounded=True, files=rng.randint(1, 4), rows=rng.randint(1, 5), max_files=1),
        SourceDef("live1", bounded=False, files=rng.randint(1, 4), rows=rng.randint(1, 5), max_files=1),
    )
    if rng.random() < 0.5:
        sources = (replace(sources[0], chain=False), sources[1])
    inputs = tuple(rng.sample(["history0", "live1"], 2))
    mode = rng.choice(["update", "complete"])
    transforms: tuple[TransformDef, ...]
    sinks: tuple[SinkDef, ...]
    if kind == "sums of counts":
        transforms = (
            TransformDef("t0", "counts", inputs, output_mode=mode, chain=rng.random() < 0.5),
            TransformDef("t1", "counts", ("t0",), output_mode=rng.choice(["update", "complete"])),
        )
        sinks = (SinkDef("out0", "t1", "last"), SinkDef("out1", "t0", "last"))[: rng.choice([1, 2, 2])]
    elif kind == "history's counts with live rows":
        transforms = (
            TransformDef("t0", "counts", ("history0",), output_mode=mode),
            TransformDef("t1", "join", ("live1",), ("t0",)),
        )
        sinks = (SinkDef("out0", "t1", "rows"), SinkDef("out1", "t0", "last"))[: rng.choice([1, 2])]
    elif kind == "event time of one source":
        marked = rng.choice(["history0", "live1"])
        sources = tuple(replace(source, watermark=DELAY if source.uid == marked else None) for source in sources)  # type: ignore[assignment]
        transforms = (TransformDef("t0", rng.choice(["windows", "dedup_in_time", "dedup_within", "distinct"]), inputs),)
        sinks = (SinkDef("out0", "t0", "rows"),)
    else:
        sources = tuple(replace(source, watermark=DELAY) for source in sources)  # type: ignore[assignment]
        first, second = ("map", "dedup_in_time") if kind == "duplicates behind a cut" else ("windows", "windows")
        base = inputs if kind != "duplicates behind a cut" else (rng.choice(inputs),)
        transforms = (TransformDef("t0", first, base), TransformDef("t1", second, ("t0",)))
        sinks = (SinkDef("out0", "t1", "rows"), SinkDef("out1", "t0", "rows"))[: rng.choice([1, 2])]
    drawn = Definition(
        seed=seed,
        sources=sources,
        transforms=transforms,
        sinks=sinks,
        interval=rng.choice([0.1, 0.3]),
        at_start=rng.randint(0, 2),
    )
    return pruned(drawn)


class PlanJob(InProcess):
    """A job that may be refused for any reason, if nothing was written."""

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        assert fresh, f"refused in mid-life: {type(error).__name__}: {error}"
        self.story.refused = type(error).__name__
        self.story.note(f"refused: {type(error).__name__}: {error}")
        return "REFUSED"
