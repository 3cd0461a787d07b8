"""Random jobs as values: drawn by the generator, then built, run, compared and shrunk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Lineage = Literal["rows", "last", "limited"]
"""Comparison of released rows with the plain batch.

"rows": the same multiset. "last": the last row of each key. "limited": the same number of rows, all of them in the
batch without the limit.
"""
AtFirst = Literal["full", "empty", "missing"]


@dataclass(frozen=True)
class SourceDef:
    """A source.

    ``watermark``: delay in seconds. ``first``: event time of the first file, in seconds. ``folder``: parent of the
    source's folder. ``late``: some rows are later than the delay allows. ``zoned``: the files are in folders named
    ``zone=value``. ``at_first``: the folder at the first start. Unless it is "full", the job must be refused.
    ``allow_empty``: the source may have no file.
    """

    uid: str
    bounded: bool
    chain: bool = True
    watermark: int | None = None
    files: int = 3
    rows: int = 4
    first: int = 0
    max_files: int | None = None
    folder: str = "in"
    late: bool = False
    persist: bool = False
    zoned: bool = False
    at_first: AtFirst = "full"
    allow_empty: bool = False


@dataclass(frozen=True)
class TransformDef:
    """A transform.

    ``kind``: a name of ``functions.KINDS``. ``others``: inputs of a join's second parameter. ``wide``: the output has
    one more column. ``span``: seconds of a window, a session gap or the time bound of a join; ``slide``: of windows. If
    None, the kind has its own.
    """

    uid: str
    kind: str
    inputs: tuple[str, ...]
    others: tuple[str, ...] = ()
    chain: bool = True
    output_mode: str = "append"
    wide: bool = False
    persist: bool = False
    span: int | None = None
    slide: int | None = None


@dataclass(frozen=True)
class SinkDef:
    uid: str
    input: str
    lineage: Lineage
    format: str = "parquet"
    partitioned: bool = False
    release: str = "every_checkpoint"
    folder: str | None = None
    mode: str = "errorifexists"

    @property
    def place(self) -> str:
        """The sink's folder: relative to the job's folder, or any path."""
        return self.folder or self.uid


@dataclass(frozen=True)
class Definition:
    """A random job.

    ``interval``: of checkpoints, in seconds. ``at_start``: number of live files that exist at the start. ``limit``: the
    run's read limit in bytes. ``job_id``: distinguishes two jobs that write to one folder.
    """

    seed: int
    sources: tuple[SourceDef, ...]
    transforms: tuple[TransformDef, ...]
    sinks: tuple[SinkDef, ...]
    mode: str = "auto"
    interval: float = 0.3
    retained: int = 3
    at_start: int = 1
    limit: int | None = None
    job_id: str = "job"

    @property
    def live(self) -> tuple[SourceDef, ...]:
        return tuple(source for source in self.sources if not source.bounded)

    @property
    def kept(self) -> tuple[str, ...]:
        """The operators whose results outlive the job."""
        operators: tuple[SourceDef | TransformDef, ...] = (*self.sources, *self.transforms)
        return tuple(operator.uid for operator in operators if operator.persist)

    @property
    def is_batch(self) -> bool:
        return self.mode == "batch" or (self.mode == "auto" and not self.live)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Definition:
        data: Mapping[str, Any] = json.loads(text)
        transforms = [
            {**transform, "inputs": tuple(transform["inputs"]), "others": tuple(transform["others"])}
            for transform in data["transforms"]
        ]
        return Definition(
            **{
                **data,
                "sources": tuple(SourceDef(**source) for source in data["sources"]),
                "transforms": tuple(TransformDef(**transform) for transform in transforms),
                "sinks": tuple(SinkDef(**sink) for sink in data["sinks"]),
            }
        )

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: job {self.job_id!r}, mode {self.mode}, interval {self.interval}, "
            f"retained {self.retained}, read limit {self.limit}"
        ]
        lines += [f"  {part}" for part in (*self.sources, *self.transforms, *self.sinks)]
        return "\n".join(lines)


def simpler(definition: Definition) -> list[Definition]:
    """Return the definitions with one feature turned off. Each of them is still a whole job."""
    variants: list[Definition] = []
    if len(definition.sinks) > 1:
        for sink in definition.sinks:
            variants.append(
                pruned(replace(definition, sinks=tuple(other for other in definition.sinks if other != sink)))
            )
    for name, plain in (("sources", SOURCE), ("transforms", TRANSFORM), ("sinks", SINK)):
        for at, part in enumerate(getattr(definition, name)):
            for key, value in plain.items():
                if getattr(part, key) != value and not (key == "rows" and part.rows < value):
                    changed = [*getattr(definition, name)]
                    changed[at] = replace(part, **{key: value})
                    whole: dict[str, Any] = {name: tuple(changed)}
                    variants.append(replace(definition, **whole))
    return variants


SOURCE: Mapping[str, Any] = {
    "chain": True,
    "files": 2,
    "rows": 2,
    "max_files": None,
    "first": 0,
    "late": False,
    "persist": False,
    "zoned": False,
    "at_first": "full",
}
TRANSFORM: Mapping[str, Any] = {"chain": True, "persist": False}
SINK: Mapping[str, Any] = {"format": "parquet", "partitioned": False, "release": "every_checkpoint", "mode": "append"}


def pruned(definition: Definition) -> Definition:
    """Return the definition without the operators that lead to no sink."""
    needed = {sink.input for sink in definition.sinks} | {*definition.kept}
    for transform in reversed(definition.transforms):
        if transform.uid in needed:
            needed |= {*transform.inputs, *transform.others}
    return replace(
        definition,
        sources=tuple(source for source in definition.sources if source.uid in needed),
        transforms=tuple(transform for transform in definition.transforms if transform.uid in needed),
    )
