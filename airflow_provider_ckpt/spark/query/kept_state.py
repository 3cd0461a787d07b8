"""What a query keeps from one micro-batch to the next, as far as its plan tells: by what, and of which streams.

Spark looks at the types of a state's columns alone when it goes on with it. The sides of a join that are swapped,
another key of the same type, or two sums in another order are of the same types: it would take one for the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.spark.query.analysed_plan import (
    analysed,
    children_of,
    columns_named,
    columns_of_streams,
    optimised,
    stateful_below,
    streams_below,
    with_definitions,
)

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
_SEED = re.compile(r"\b(randn?|shuffle|uuid)\([^()]*\)")
"""Drawn anew for each plan."""
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'")
_MANY = 50
"""Expressions of an aggregation."""
_PULLED_OUT = "_groupingexpression"
"""What Spark calls a key that is no column."""


@dataclass(frozen=True)
class Columns:
    """By their ids: the streams that give them, and what those are that Spark has pulled out."""

    streams: Mapping[int, str]
    pulled_out: Mapping[int, Any]

    @staticmethod
    def of(plan: Any) -> Columns:
        return Columns(columns_of_streams(plan), columns_named(plan, _PULLED_OUT))

    def told(self, column: Any, *, with_streams: bool) -> str:
        name, number = str(column.name()), int(column.exprId().id())
        if name == _PULLED_OUT and number in self.pulled_out:
            return _text(self.pulled_out[number], self, with_streams=with_streams)
        return f"{self.streams[number]}.{name}" if with_streams and number in self.streams else name


def kept_state(frame: DataFrame) -> list[KeptState]:
    """From the output downwards. Of the plan as Spark runs it: conditions that stand in WHERE are keys of a join there,
    and the order of sums is that in which the last ``select`` comes to them."""
    try:
        plan = optimised(frame)
    except Py4JError:
        plan = analysed(frame)
    named, columns = with_definitions(plan), Columns.of(plan)
    return [_of(node, named, columns) for node in stateful_below(plan)]


def _of(node: Any, named: Mapping[int, Any], columns: Columns) -> KeptState:
    kind, children = str(node.nodeName()), children_of(node)
    sides = tuple(tuple(sorted(streams_below(child, named))) for child in children)
    calls = _calls(node, columns) if kind == "Aggregate" else ()
    return KeptState(kind, tuple(_by(kind, node, columns)), sides, calls)


def _by(kind: str, node: Any, columns: Columns) -> list[str]:
    if kind == "Aggregate":
        return _told_apart(_each(node.groupingExpressions()), columns)
    if kind == "Join":
        condition = node.condition()
        conjuncts = _conjuncts(condition.get()) if condition.isDefined() else ()
        left, right = children_of(node)
        equal = [_equality(one, left, right, columns) for one in conjuncts if one.nodeName() in _EQUALITIES]
        return [one for one in equal if one is not None]
    if kind == "Distinct":
        return _told_apart(_each(node.output()), columns)
    if kind.startswith("Deduplicate"):
        return _told_apart(_each(node.keys()), columns)
    return _grouping(node)


def _told_apart(expressions: Iterable[Any], columns: Columns) -> list[str]:
    """With the streams that give their columns where these have the same names."""
    each = list(expressions)
    plain = [_text(one, columns) for one in each]
    return plain if len({*plain}) == len(plain) else [_text(one, columns, with_streams=True) for one in each]


def _grouping(node: Any) -> list[str]:
    """The keys of arbitrary state; none of what has no such thing."""
    with suppress(Py4JError):
        return [str(one.name()) for one in _each(node.groupingAttributes())]
    with suppress(Py4JError):
        keys = int(node.groupingAttributesLen())
        return [str(one.name()) for one in islice(_each(node.left().output()), keys)]
    return []


def _text(expression: Any, columns: Columns, *, with_streams: bool = False) -> str:
    """Without the name of the table that a column is of, which may be another one, and without what is drawn. It comes
    into the journal and into errors, and a text in it may be a secret (the key of a hash): enough of a digest of it
    stays to tell two of them apart."""
    text = _LITERAL.sub(_digest, str(expression.sql()))
    for column in _each(expression.references().toSeq()):
        sql, told = str(column.sql()), columns.told(column, with_streams=with_streams)
        if sql != told:  # a field of a structure, or the end of another name, is none
            text = told.join(re.split(rf"(?<![\w`.]){re.escape(sql)}(?![\w`])", text))
    return _SEED.sub(r"\1()", text)


def _digest(literal: re.Match[str]) -> str:
    return f"'#{hashlib.sha256(literal[0].encode()).hexdigest()[:4]}'"


def _calls(node: Any, columns: Columns) -> tuple[str, ...]:
    """Each once, as it is kept once, in the order in which the expressions come to them. Of very many the expressions
    themselves: each look at one is a call of the JVM."""
    expressions = node.aggregateExpressions()
    if expressions.size() > _MANY:
        return tuple(dict.fromkeys(_text(one, columns) for one in _each(expressions)))
    each = [call for one in _each(expressions) for call in _aggregates(one)]
    calls = {_text(call, columns, with_streams=True): call for call in each}
    return tuple(_told_apart(calls.values(), columns))


def _aggregates(expression: Any) -> Iterator[Any]:
    if expression.nodeName() == "AggregateExpression":
        yield expression
        return
    for child in _each(expression.children()):
        yield from _aggregates(child)


def _equality(node: Any, left: Any, right: Any, columns: Columns) -> str | None:
    """What of the left side and what of the right, whichever way round it is written. None if it is no key of the join:
    what is equal to a constant, or of one side alone."""
    one, other = node.left(), node.right()
    for mine, theirs in ((one, other), (other, one)):
        if _is_of(mine, left) and _is_of(theirs, right):
            return f"{_text(mine, columns)} = {_text(theirs, columns)}"
    return None


def _is_of(expression: Any, side: Any) -> bool:
    columns = expression.references()
    return not columns.isEmpty() and bool(columns.subsetOf(side.outputSet()))


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition.nodeName() != "And":
        yield condition
        return
    for side in (condition.left(), condition.right()):
        yield from _conjuncts(side)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))
