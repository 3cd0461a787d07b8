"""Whether another query can take the place of one that runs: what can be told before it is started."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.job.definition import plain_path, selecting
from airflow_provider_ckpt.spark.query.analysed_plan import refusal
from airflow_provider_ckpt.spark.query.builder import BuiltQuery
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.errors import UnfitQueryError
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.spark.query.unions import shape


def check_fits(vertex: str, now: BuiltQuery, other: BuiltQuery) -> None:
    """``other`` in the place of ``now``. Raises UnfitQueryError. State that does not fit shows when it is tried."""
    for problem in _problems(now, other):
        raise UnfitQueryError(vertex=vertex, problem=problem)


def _problems(now: BuiltQuery, other: BuiltQuery) -> Iterator[str]:
    before, after = plain(now.schema), plain(other.schema)
    if shape(before.jsonValue()) != shape(after.jsonValue()):
        yield f"it has other columns: {after.simpleString()} instead of {before.simpleString()}"
    if now.stateful is not other.stateful:
        yield "it keeps state, and did not" if other.stateful else "it keeps no state any more"
    if now.output_mode != other.output_mode:
        yield f"its output mode is {other.output_mode!r} instead of {now.output_mode!r}"
    if now.watermark is not other.watermark:
        yield "it has event time, and had none" if other.watermark else "it has no event time any more"
    for uid, reads in now.reads.items():
        if uid in other.reads and _identity(reads) != _identity(other.reads[uid]):
            yield f"source {uid} reads {_shown(other.reads[uid])} instead of {_shown(reads)}"
    cause = refusal(other.frame, other.output_mode)
    if cause is not None:
        yield cause.rstrip(".")


def _identity(reads: SourceReads) -> tuple[object, ...]:
    """What was read is known by it, and would be read again or not at all under another one."""
    return reads.format.lower(), tuple(map(plain_path, reads.paths)), tuple(sorted(selecting(reads.options).items()))


def _shown(reads: SourceReads) -> str:
    chosen = "".join(f", {key}={value}" for key, value in selecting(reads.options).items())
    return f"{reads.format} {', '.join(reads.paths)}{chosen}"
