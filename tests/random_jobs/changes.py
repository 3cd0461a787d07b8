"""Changes of a definition between two runs, drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef, pruned
from tests.random_jobs.functions import KINDS
from tests.random_jobs.generate import DELAY

Draw = Callable[[random.Random, Definition], Definition | None]
"""A function that draws a change; None if the definition has nothing of the kind."""


def change(seed: int, definition: Definition) -> tuple[str, Definition]:
    """Draw a change. Return its name and the changed definition."""
    rng = random.Random(seed * 13 + 5)
    names = list(CHANGES)
    rng.shuffle(names)
    for name in names:
        changed = CHANGES[name](rng, definition)
        if changed is not None and changed != definition:
            return name, changed
    raise AssertionError(f"nothing can be changed in {definition}")


def _source(rng: random.Random, definition: Definition, edit: Callable[[SourceDef], SourceDef]) -> Definition:
    chosen = rng.choice(definition.sources)
    return replace(
        definition, sources=tuple(edit(source) if source == chosen else source for source in definition.sources)
    )


def _transform(
    rng: random.Random, definition: Definition, among: list[TransformDef], edit: Callable[[TransformDef], TransformDef]
) -> Definition | None:
    if not among:
        return None
    chosen = rng.choice(among)
    return replace(
        definition,
        transforms=tuple(edit(transform) if transform == chosen else transform for transform in definition.transforms),
    )


def _sink(rng: random.Random, definition: Definition, edit: Callable[[SinkDef], SinkDef]) -> Definition:
    chosen = rng.choice(definition.sinks)
    return replace(definition, sinks=tuple(edit(sink) if sink == chosen else sink for sink in definition.sinks))


def mode(rng: random.Random, definition: Definition) -> Definition | None:
    if definition.live:
        return None
    return replace(definition, mode="streaming" if definition.is_batch else rng.choice(["auto", "batch"]))


def watermark(rng: random.Random, definition: Definition) -> Definition | None:
    """Change a watermark, but never to a shorter delay, which would make rows late."""
    return _source(rng, definition, lambda source: replace(source, watermark=rng.choice([None, DELAY, 2 * DELAY])))


def source_folder(rng: random.Random, definition: Definition) -> Definition | None:
    """Move a source to another folder with the same files. A continued job reads them again."""
    return _source(rng, definition, lambda source: replace(source, folder="moved"))


def source_limit(rng: random.Random, definition: Definition) -> Definition | None:
    return _source(rng, definition, lambda source: replace(source, max_files=3 if source.max_files is None else None))


def source_chain(rng: random.Random, definition: Definition) -> Definition | None:
    return _source(rng, definition, lambda source: replace(source, chain=not source.chain))


def transform_chain(rng: random.Random, definition: Definition) -> Definition | None:
    return _transform(
        rng, definition, list(definition.transforms), lambda transform: replace(transform, chain=not transform.chain)
    )


def output_mode(rng: random.Random, definition: Definition) -> Definition | None:
    among = [transform for transform in definition.transforms if len(KINDS[transform.kind].modes) > 1]
    other = {"update": "complete", "complete": "update"}
    return _transform(
        rng, definition, among, lambda transform: replace(transform, output_mode=other[transform.output_mode])
    )


def schema(rng: random.Random, definition: Definition) -> Definition | None:
    read = {uid for transform in definition.transforms for uid in (*transform.inputs, *transform.others)}
    among = [transform for transform in definition.transforms if transform.uid not in read]
    return _transform(rng, definition, among, lambda transform: replace(transform, wide=True))


def sink_path(rng: random.Random, definition: Definition) -> Definition | None:
    return _sink(rng, definition, lambda sink: replace(sink, folder=f"{sink.uid}_new"))


def sink_format(rng: random.Random, definition: Definition) -> Definition | None:
    return _sink(rng, definition, lambda sink: replace(sink, format="json" if sink.format == "parquet" else "parquet"))


def sink_partitions(rng: random.Random, definition: Definition) -> Definition | None:
    return _sink(rng, definition, lambda sink: replace(sink, partitioned=not sink.partitioned))


def sink_release(rng: random.Random, definition: Definition) -> Definition | None:
    other = {"final": "every_checkpoint", "every_checkpoint": "final"}
    return _sink(rng, definition, lambda sink: replace(sink, release=other[sink.release]))


def sink_added(rng: random.Random, definition: Definition) -> Definition | None:
    return replace(definition, sinks=(*definition.sinks, replace(rng.choice(definition.sinks), uid="added")))


def operator_added(rng: random.Random, definition: Definition) -> Definition | None:
    """Add a sink with a transform of its own after an existing operator."""
    base = rng.choice(definition.sinks)
    added = TransformDef("new", "map", (base.input,), chain=rng.random() < 0.5)
    return replace(
        definition,
        transforms=(*definition.transforms, added),
        sinks=(*definition.sinks, replace(base, uid="added", input="new")),
    )


def operator_removed(rng: random.Random, definition: Definition) -> Definition | None:
    if len(definition.sinks) < 2:
        return None
    gone = rng.choice(definition.sinks)
    return pruned(replace(definition, sinks=tuple(sink for sink in definition.sinks if sink != gone)))


CHANGES: dict[str, Draw] = {
    "mode": mode,
    "watermark": watermark,
    "source folder": source_folder,
    "source limit": source_limit,
    "source chain": source_chain,
    "transform chain": transform_chain,
    "output mode": output_mode,
    "schema": schema,
    "sink path": sink_path,
    "sink format": sink_format,
    "sink partitions": sink_partitions,
    "sink release": sink_release,
    "sink added": sink_added,
    "operator added": operator_added,
    "operator removed": operator_removed,
}
