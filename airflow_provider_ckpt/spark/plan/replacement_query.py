"""Comparison of a running query with the query that will replace it, before the new query starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, zip_longest

from airflow_provider_ckpt.job.definition_parts import plain_path, selection_options
from airflow_provider_ckpt.model.definition import EventTime
from airflow_provider_ckpt.model.kept_state import confused_states
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.analysed_plan import (
    refusal,
    streaming_leaves,
    streams,
    watermark_over_union,
    watermarks,
)
from airflow_provider_ckpt.spark.query.edge_schema import event_time, plain
from airflow_provider_ckpt.spark.query.errors import UnfitQueryError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.query.unions import shape
from airflow_provider_ckpt.storage.redaction import redact_uri


def check_fits(
    vertex: str, current: BuiltQuery, changed: BuiltQuery, *, is_read: bool = False, is_edited: bool = True
) -> None:
    """Refuse the query ``changed`` if it cannot replace the running query ``current``.

    This check compares plans only. A later dry run finds further misfits of state.

    Args:
        is_read: True if other queries read the output through a result partition. Then its event time is compared.
        is_edited: False if the two queries have the same functions. Then their state is not compared.

    Raises UnfitQueryError.
    """
    problems = _problems(current, changed, is_edited=is_edited)
    for problem in chain(problems, _problems_of_event_time(current, changed, is_read=is_read)):
        raise UnfitQueryError(vertex=vertex, problem=problem)


def _problems(current: BuiltQuery, changed: BuiltQuery, *, is_edited: bool) -> Iterator[str]:
    before, after = plain(current.schema), plain(changed.schema)
    if shape(before.jsonValue()) != shape(after.jsonValue()):
        yield f"it has other columns: {after.simpleString()} instead of {before.simpleString()}"
    if current.stateful is not changed.stateful:
        yield "it keeps state, and did not" if changed.stateful else "it no longer keeps state"
    elif is_edited:
        yield from _problems_of_state(current, changed)
    if current.output_mode != changed.output_mode:
        yield f"its output mode is {changed.output_mode!r} instead of {current.output_mode!r}"
    if current.watermark is not changed.watermark:
        yield "it has event time, and had none" if changed.watermark else "it no longer has event time"
    for uid, reads in current.reads.items():
        if uid in changed.reads and _identity(reads) != _identity(changed.reads[uid]):
            yield f"source {uid} reads {_shown(changed.reads[uid])} instead of {_shown(reads)}"
    cause = refusal(changed.frame, changed.output_mode)
    if cause is not None:
        yield cause.rstrip(".")


def _problems_of_state(current: BuiltQuery, changed: BuiltQuery) -> Iterator[str]:
    had, has = kept_state(current.frame), kept_state(changed.frame)
    before, after = streams(current.frame), streams(changed.frame)
    differing = [(a, b) for a, b in zip_longest(had, has) if a is None or b is None or not a.fits(b)]
    if before != after:  # a source has ended, and is left out
        differing = list(filter(None, [confused_states(had, has, before.keys() & after.keys())]))
    for a, b in differing:
        yield f"its state would be taken for another: it keeps {b or 'none'} instead of {a or 'none'}"


def _problems_of_event_time(current: BuiltQuery, changed: BuiltQuery, *, is_read: bool) -> Iterator[str]:
    """Yield differences in event time that would make Spark or consumers of the output drop rows as late."""
    had, has = Counter(watermarks(current.frame)), Counter(watermarks(changed.frame))
    if has - had:
        yield f"it has another watermark: {', '.join(f'{column}, {delay}' for column, delay in has - had)}"
    if had - has and streaming_leaves(current.frame) == streaming_leaves(changed.frame):  # otherwise a source has ended
        yield f"it lacks a watermark: {', '.join(f'{column}, {delay}' for column, delay in had - has)}"
    if watermark_over_union(changed.frame) and not watermark_over_union(current.frame):
        yield "its watermark is set after a union, and was not"
    before, after = event_time(current.schema), event_time(changed.schema)
    if is_read and before != after:
        yield f"its output follows the event time of {_column(after)}, and its consumers follow {_column(before)}"


def _column(mark: EventTime | None) -> str:
    return "no column" if mark is None else f"{mark.column!r}, {mark.delay_ms} ms"


def _identity(reads: SourceReads) -> tuple[object, ...]:
    """Return a source's format, paths and selecting options. If they changed, data would be read again or never."""
    return (
        reads.format.lower(),
        tuple(map(plain_path, reads.paths)),
        tuple(sorted(selection_options(reads.options).items())),
    )


def _shown(reads: SourceReads) -> str:
    chosen = "".join(f", {key}={value}" for key, value in selection_options(reads.options).items())
    return f"{reads.format} {', '.join(map(redact_uri, reads.paths))}{chosen}"
