"""Checks that a query stays the same when its bounded inputs have ended and are left out (R2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.model.kept_state import confused_states
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery, QueryBuilder
from airflow_provider_ckpt.spark.plan.query_state import kept_state
from airflow_provider_ckpt.spark.query.analysed_plan import refusal, streams
from airflow_provider_ckpt.spark.query.edge_schema import plain
from airflow_provider_ckpt.spark.query.errors import UnsupportedQueryError
from airflow_provider_ckpt.spark.query.unions import shape
from airflow_provider_ckpt.spark.query.united_event_times import unlike_event_times, uses_event_time

_ALL_SETS = 3
"""Maximum number of bounded inputs whose combinations are all tried. If there are more, try each alone, and all."""


def check_like_event_times(operator: Operator, built: BuiltQuery, names: Mapping[str, str]) -> None:
    """Refuse a query with state by event time if only some inputs of a union have event time.

    ``names``: edge -> its producer, for messages.

    Raises UnsupportedQueryError.
    """
    unlike = unlike_event_times(built.frame) if built.stateful and built.watermark else None
    if unlike is None:
        return
    refused = refusal(built.frame, built.output_mode) or ""
    if "watermark" in refused.lower() or any(uses_event_time(built.frame)):
        about = {"uid": operator.uid, "location": operator.location, "column": unlike.column}
        having, lacking = _named(unlike.having, names), _named(unlike.lacking, names)
        raise UnsupportedQueryError(
            "{uid!r} ({location}) keeps state by the event time of column {column!r}, which {having} has and "
            "{lacking} has not: rows of one source would make rows of another late, and the end of a source would "
            "change the query. Declare a watermark for {lacking}, too: @job.source(watermark=({column!r}, delay)). If "
            "it gives the rows of several sources, unite those sources here",
            having=having,
            lacking=lacking,
            **about,
        )


def _named(uids: Collection[str], names: Mapping[str, str]) -> str:
    return " and ".join(repr(names.get(uid, uid)) for uid in sorted(uids))


def check_left_out(
    operator: Operator,
    builder: QueryBuilder,
    built: BuiltQuery,
    bounded: Collection[str],
    dropped: frozenset[str],
    names: Mapping[str, str],
) -> None:
    """Refuse a query whose columns, state or event time would change if some of its bounded inputs were left out.

    Args:
        builder: builder of the query, with the recorded unions of all inputs.
        built: the query without ``dropped``, which are inputs that have already ended.
        bounded: bounded sources and edges that have not ended.
        names: edge -> its producer, for messages.

    Raises UnsupportedQueryError, and what the functions of the job raise.
    """
    for inputs in _sets(builder, sorted(bounded), dropped):
        problem = _problem(built, builder.build(dropped | inputs))
        if problem is not None:
            about = {"vertex": operator.uid, "location": operator.location}
            raise UnsupportedQueryError(
                "the query of {vertex!r} ({location}) could not run on when {inputs} has ended and is left out: "
                "{problem}. Give all inputs of the union the same columns and the same watermark, and have the "
                "function build the same query without {inputs}",
                inputs=_named(inputs, names),
                problem=problem.rstrip("."),
                **about,
            )


def _sets(builder: QueryBuilder, bounded: Collection[str], dropped: frozenset[str]) -> Iterator[frozenset[str]]:
    sizes = range(1, len(bounded) + 1) if len(bounded) <= _ALL_SETS else (1, len(bounded))
    for size in sizes:
        for inputs in map(frozenset, combinations(bounded, size)):
            if all(builder.can_drop(uid, dropped | (inputs - {uid})) for uid in inputs):
                yield inputs


def _problem(current: BuiltQuery, changed: BuiltQuery) -> str | None:
    before, after = plain(current.schema), plain(changed.schema)
    if shape(before.jsonValue()) != shape(after.jsonValue()):
        return f"it would output {after.simpleString()} instead of {before.simpleString()}"
    refused = refusal(changed.frame, changed.output_mode)
    if refused is not None:
        return refused
    if current.stateful is not changed.stateful or uses_event_time(current.frame) != uses_event_time(changed.frame):
        return "its state would follow another event time"
    if not current.stateful:
        return None
    common = streams(current.frame).keys() & streams(changed.frame).keys()
    difference = confused_states(kept_state(current.frame), kept_state(changed.frame), common)
    return None if difference is None else f"it would keep {difference[1]} instead of {difference[0]}"
