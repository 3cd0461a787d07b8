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
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.spark.query.analysed_plan import (
    analysed,
    asks_the_time,
    children_of,
    columns_of_streams,
    conjuncts,
    each,
    made_columns,
    optimised,
    stateful_below,
    streams_below,
    with_definitions,
)
from airflow_provider_ckpt.spark.query.state_bounds import Texts, state_bounds

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
_SEED = re.compile(r"\b(randn?|shuffle|uuid)\([^()]*\)")
"""Drawn anew for each plan."""
_LITERAL = re.compile(r"(INTERVAL )?'(?:[^'\\]|\\.)*'")
_MANY = 50
"""Expressions of an aggregation."""
_NUMBER = re.compile(r"(?<![\w.`])\d+(?:\.\d+)?(?:E-?\d+)?[A-Z]*(?![\w.`])")


@dataclass(frozen=True)
class Columns:
    """By their ids: the streams that give them, and what those are that Spark has made up. ``asks_the_time``: a number
    or a time in the plan may be that of when it was made."""

    streams: Mapping[int, str]
    made: Mapping[int, Any]
    asks_the_time: bool

    def told(self, column: Any, *, with_streams: bool, anonymous: bool = False) -> str:
        """``anonymous``: without its name."""
        name, number = str(column.name()), int(column.exprId().id())
        if number in self.made:
            return _text(self.made[number], self, with_streams=with_streams, anonymous=anonymous)
        if anonymous:
            return "_"
        return f"{self.streams[number]}.{name}" if with_streams and number in self.streams else name


def kept_state(frame: DataFrame) -> list[KeptState]:
    """From the output downwards. Of the plan as Spark runs it: conditions that stand in WHERE are keys of a join there,
    and the order of sums is that in which the last ``select`` comes to them."""
    written = analysed(frame)
    try:
        plan = optimised(frame)
    except (Py4JError, PySparkException):
        plan = written
    moves = asks_the_time(written, frame.sparkSession)
    named, columns = with_definitions(plan), Columns(columns_of_streams(plan), made_columns(plan), moves)
    return [_of(node, named, columns) for node in stateful_below(plan)]


def _of(node: Any, named: Mapping[int, Any], columns: Columns) -> KeptState:
    kind, children = str(node.nodeName()), children_of(node)
    sides = tuple(tuple(sorted(streams_below(child, named))) for child in children)
    calls = _calls(node, columns) if kind == "Aggregate" else ()
    texts = Texts(
        columns.made,
        named=lambda expression: _text(expression, columns),
        anonymous=lambda expression: _text(expression, columns, anonymous=True),
    )
    return KeptState(kind, tuple(_by(kind, node, columns)), sides, calls, state_bounds(node, texts))


def _by(kind: str, node: Any, columns: Columns) -> list[str]:
    if kind == "Aggregate":
        return _told_apart(each(node.groupingExpressions()), columns)
    if kind == "Join":
        condition = node.condition()
        parts = conjuncts(condition.get()) if condition.isDefined() else ()
        left, right = children_of(node)
        equal = [_equality(one, left, right, columns) for one in parts if one.nodeName() in _EQUALITIES]
        return [one for one in equal if one is not None]
    if kind == "Distinct":
        return _told_apart(each(node.output()), columns)
    if kind.startswith("Deduplicate"):
        return _told_apart(each(node.keys()), columns)
    return _grouping(node)


def _told_apart(expressions: Iterable[Any], columns: Columns) -> list[str]:
    """With the streams that give their columns where these have the same names."""
    found = list(expressions)
    plain = [_text(one, columns) for one in found]
    return plain if len({*plain}) == len(plain) else [_text(one, columns, with_streams=True) for one in found]


def _grouping(node: Any) -> list[str]:
    """The keys of arbitrary state; none of what has no such thing."""
    with suppress(Py4JError):
        return [str(one.name()) for one in each(node.groupingAttributes())]
    with suppress(Py4JError):
        keys = int(node.groupingAttributesLen())
        return [str(one.name()) for one in islice(each(node.left().output()), keys)]
    return []


def _text(expression: Any, columns: Columns, *, with_streams: bool = False, anonymous: bool = False) -> str:
    """Without the name of the table that a column is of, which may be another one, and without what is drawn, or goes
    by the time. It comes into the journal and into errors, and a text in it may be a secret (the key of a hash): enough
    of a digest of it stays to tell two of them apart."""
    text = str(expression.sql())
    if columns.asks_the_time:
        text = _NUMBER.sub("#", _LITERAL.sub("#", text))
    text = _LITERAL.sub(_digest, text)
    found: list[str] = []
    for column in each(expression.references().toSeq()):
        sql, told = str(column.sql()), columns.told(column, with_streams=with_streams, anonymous=anonymous)
        if sql != told:  # a field of a structure, or the end of another name, is none
            text = f"\0{len(found)}\0".join(re.split(rf"(?<![\w`.]){re.escape(sql)}(?![\w`])", text))
            found.append(told)
    for number, told in enumerate(found):
        text = text.replace(f"\0{number}\0", told)
    return _SEED.sub(r"\1()", text)


def _digest(literal: re.Match[str]) -> str:
    if literal[1]:
        return literal[0]  # an interval is no secret
    return f"'#{hashlib.sha256(literal[0].encode()).hexdigest()[:4]}'"


def _calls(node: Any, columns: Columns) -> tuple[str, ...]:
    """Each once, as it is kept once, in the order in which the expressions come to them. Of very many the expressions
    themselves: each look at one is a call of the JVM."""
    expressions = node.aggregateExpressions()
    if expressions.size() > _MANY:
        return tuple(dict.fromkeys(_text(one, columns) for one in each(expressions)))
    found = [call for one in each(expressions) for call in _aggregates(one)]
    calls = {_text(call, columns, with_streams=True): call for call in found}
    return tuple(_told_apart(calls.values(), columns))


def _aggregates(expression: Any) -> Iterator[Any]:
    if expression.nodeName() == "AggregateExpression":
        yield expression
        return
    for child in each(expression.children()):
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
