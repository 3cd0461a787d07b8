"""Builders that turn a definition into a Job, and into one plain DataFrame for each sink."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sinks.sink import Sink
from tests.random_jobs import functions
from tests.random_jobs.definition import Definition, SinkDef, SourceDef, TransformDef
from tests.random_jobs.functions import JOINS, KINDS

MakeSink = Callable[..., Sink]
OnCall = Callable[[str], None]

cloudpickle.register_pickle_by_value(functions)  # type: ignore[no-untyped-call]


def build(
    definition: Definition, base: Path, make_sink: MakeSink = FileSink, on_call: OnCall = lambda uid: None
) -> Job:
    """Return the job over ``base/in`` and ``base/<sink>``. ``on_call``: called at every call of a source's function."""
    job = Job("random")
    for source in definition.sources:
        _add_source(job, source, str(base / source.folder / source.uid), on_call)
    for transform in definition.transforms:
        _add_transform(job, transform)
    for sink in definition.sinks:
        columns = ("k",) if sink.partitioned else ()
        target = make_sink(str(base / sink.place), format=sink.format, partition_by=columns, mode=sink.mode)
        job.sink(sink.uid, sink.input, target, release=sink.release)  # type: ignore[arg-type]
    return job


def _add_source(job: Job, source: SourceDef, folder: str, on_call: OnCall) -> None:
    def read(reader: Any) -> DataFrame:
        on_call(source.uid)
        return functions.read(reader, folder, zoned=source.zoned)

    job.source(
        uid=source.uid,
        bounded=source.bounded,
        chain=source.chain,
        max_files_per_trigger=source.max_files,
        watermark=None if source.watermark is None else ("ts", source.watermark),
        persist=source.persist,
        allow_empty=source.allow_empty,
    )(read)


def _add_transform(job: Job, transform: TransformDef) -> None:
    plain = _bound(transform, KINDS[transform.kind].function)

    def function(*frames: DataFrame) -> DataFrame:
        made = plain(*frames)
        return made.withColumn("wide", F.lit(1)) if transform.wide else made

    def rows(rows: DataFrame) -> DataFrame:
        return function(rows)

    def both(left: DataFrame, right: DataFrame) -> DataFrame:
        return function(left, right)

    join = transform.kind in JOINS
    inputs: Any = {"left": list(transform.inputs), "right": list(transform.others)} if join else list(transform.inputs)
    mode: Any = transform.output_mode
    decorator = job.transform(
        inputs=inputs, uid=transform.uid, chain=transform.chain, output_mode=mode, persist=transform.persist
    )
    decorator(both if join else rows)


def _bound(transform: TransformDef, function: functions.Function) -> functions.Function:
    """Return the function with the transform's own lengths of windows, gaps and time bounds."""
    own = {"span": transform.span, "slide": transform.slide}
    bounds = {name: seconds for name, seconds in own.items() if seconds is not None}
    return functools.partial(function, **bounds) if bounds else function


def plain_frames(
    spark: SparkSession, definition: Definition, folder: Path, *, with_limits: bool = False
) -> Mapping[str, DataFrame]:
    """Return the final output of each operator: the same functions over all files in ``folder``, as one batch.

    A limit may choose any rows. Without ``with_limits`` the result has all rows that it may choose from.
    """
    frames: dict[str, DataFrame] = {}
    for source in definition.sources:
        zone_type = "string" if source.zoned else None
        frames[source.uid] = functions.read(
            spark.read, str(folder / source.uid), zoned=source.zoned, zone_type=zone_type
        )
    for transform in definition.transforms:
        kind = KINDS[transform.kind]
        sides = [united(frames, uids) for uids in (transform.inputs, transform.others) if uids]
        capped = with_limits and transform.kind == "limit"
        function = _bound(transform, kind.function if capped else kind.plain or kind.function)
        frames[transform.uid] = function(*sides)
    return frames


def united(frames: Mapping[str, DataFrame], uids: tuple[str, ...]) -> DataFrame:
    frame = frames[uids[0]]
    for uid in uids[1:]:
        frame = frame.unionByName(frames[uid])
    return frame


def siblings(definition: Definition) -> list[tuple[SinkDef, ...]]:
    """Return the sinks grouped by operator, that is by query."""
    inputs = sorted({sink.input for sink in definition.sinks})
    return [tuple(sink for sink in definition.sinks if sink.input == uid) for uid in inputs]
