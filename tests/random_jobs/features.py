"""Features added to a drawn job. They use separate random numbers, so that a seed's original job stays the same."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.random_jobs.definition import AtFirst, Definition, SinkDef
from tests.random_jobs.lateness import is_comparable

MODES = ("errorifexists", "append", "overwrite")
PLAIN = ("union", "map", "filter", "explode")
LATE_FILES = 4
"""Files until event time has passed the late rows."""


def add_features(seed: int, definition: Definition) -> Definition:
    rng = random.Random(seed * 17 + 3)
    with_modes = replace(definition, sinks=tuple(replace(sink, mode=rng.choice(MODES)) for sink in definition.sinks))
    # one byte: every file from one query to another exceeds the read limit
    limited = replace(with_modes, limit=rng.choice([None, None, 1]))
    return _folders(seed, _kept(seed, _late(limited) if rng.random() < 0.85 else limited))


def _kept(seed: int, definition: Definition) -> Definition:
    """Make some results outlive the job: those that end, and whose rows do not depend on their order."""
    rng = random.Random(seed * 29 + 5)
    ends = {source.uid for source in definition.sources if source.bounded}
    kept = {uid for uid in sorted(ends) if rng.random() < 0.15}
    for transform in definition.transforms:
        if transform.kind in PLAIN and not transform.others and {*transform.inputs} <= ends:
            ends.add(transform.uid)
            kept |= {transform.uid} if rng.random() < 0.25 else set()
    return replace(
        definition,
        sources=tuple(replace(source, persist=source.uid in kept) for source in definition.sources),
        transforms=tuple(replace(transform, persist=transform.uid in kept) for transform in definition.transforms),
    )


def _folders(seed: int, definition: Definition) -> Definition:
    """Make some history absent at the first start, or empty for good, and put some files into folders of zones."""
    rng = random.Random(seed * 41 + 13)
    sources = [replace(source, zoned=rng.random() < 0.3) for source in definition.sources]
    for at, source in enumerate(sources):
        if source.bounded:
            absence: AtFirst = rng.choice(["empty", "missing"]) if rng.random() < 0.3 else "full"
            is_empty = absence == "full" and rng.random() < 0.15
            sources[at] = replace(
                source,
                at_first=absence,
                allow_empty=is_empty,
                zoned=source.zoned and not is_empty,
                files=0 if is_empty else source.files,
                late=source.late and not is_empty,
            )
    return replace(definition, sources=tuple(sources))


def _late(definition: Definition) -> Definition:
    sources = tuple(
        replace(source, late=True, files=max(source.files, LATE_FILES)) if source.watermark else source
        for source in definition.sources
    )
    late = replace(definition, sources=sources)
    return late if is_comparable(late) else definition


def in_time(definition: Definition) -> Definition:
    """Return the definition without late rows."""
    return replace(definition, sources=tuple(replace(source, late=False) for source in definition.sources))


def second_job(seed: int, first: Definition) -> Definition | None:
    """Draw a job that writes to the folders of the first one later: other rows, the same functions."""
    rng = random.Random(seed * 19 + 11)
    if rng.random() < 0.6:
        return None
    among = rng.choice([("append", "overwrite"), ("overwrite",), MODES])

    def beside(sink: SinkDef) -> SinkDef:
        return replace(sink, uid=rng.choice([sink.uid, f"{sink.uid}_too"]), folder=sink.place, mode=rng.choice(among))

    return replace(first, seed=first.seed + 1_000_000, job_id="second", sinks=tuple(map(beside, first.sinks)))
