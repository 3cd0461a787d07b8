"""The state of a query, read from Spark's plan: which operators keep state, by which keys, over which streams.

When a query resumes, Spark compares only the types of a state's columns. The types stay the same if the sides of a join
are swapped, if another key has the same type, or if sums change their order. Spark would then misread the state.
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
from airflow_provider_ckpt.spark.plan.state_bounds import ExpressionTexts, state_bounds
from airflow_provider_ckpt.spark.query.analysed_plan import (
    analysed,
    children_of,
    columns_of_streams,
    conjuncts,
    each,
    made_columns,
    optimised,
    stateful_below,
    streams_below,
    uses_current_time,
    with_definitions,
)

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
_SEED = re.compile(r"\b(randn?|shuffle|uuid)\([^()]*\)")
"""Pattern of calls of random functions in SQL text. Their seed, which differs in each plan, is removed."""
_LITERAL = re.compile(r"(INTERVAL )?'(?:[^'\\]|\\.)*'")
_MANY = 50
"""Maximum number of aggregate expressions whose single calls are read. If there are more, only expressions are read."""
_NUMBER = re.compile(r"(?<![\w.`])\d+(?:\.\d+)?(?:E-?\d+)?[A-Z]*(?![\w.`])")


@dataclass(frozen=True)
class Columns:
    """Facts about the columns of a plan. With them, an expression has the same text in each plan of the same query.

    Attributes:
        streams: column id -> name of the stream that has the column.
        generated: id of a column that Spark generated -> its expression.
        uses_current_time: True if the plan contains the current time, so that numbers and times differ in each plan.
    """

    streams: Mapping[int, str]
    generated: Mapping[int, Any]
    uses_current_time: bool

    def name_of(self, column: Any, *, with_streams: bool, anonymous: bool = False) -> str:
        """Return a column as text: its name, or its expression if Spark generated the column.

        ``with_streams``: True to put the stream before the name. ``anonymous``: True to write "_" instead of the name.
        """
        name, number = str(column.name()), int(column.exprId().id())
        if number in self.generated:
            return _text(self.generated[number], self, with_streams=with_streams, anonymous=anonymous)
        if anonymous:
            return "_"
        return f"{self.streams[number]}.{name}" if with_streams and number in self.streams else name


def kept_state(frame: DataFrame) -> list[KeptState]:
    """Return a description of the state of each stateful node in a frame's plan, from the output on.

    The optimised plan is read, because Spark lays out state by this plan. In it, WHERE conditions are keys of a join,
    and sums have the order of the last ``select``. If Spark cannot optimise the plan, the analysed plan is read.
    """
    written = analysed(frame)
    try:
        plan = optimised(frame)
    except (Py4JError, PySparkException):
        plan = written
    moves = uses_current_time(written, frame.sparkSession)
    named, columns = with_definitions(plan), Columns(columns_of_streams(plan), made_columns(plan), moves)
    return [_state_of(node, named, columns) for node in stateful_below(plan)]


def _state_of(node: Any, named: Mapping[int, Any], columns: Columns) -> KeptState:
    kind, children = str(node.nodeName()), children_of(node)
    sides = tuple(tuple(sorted(streams_below(child, named))) for child in children)
    calls = _calls(node, columns) if kind == "Aggregate" else ()
    texts = ExpressionTexts(
        columns.generated,
        named=lambda expression: _text(expression, columns),
        anonymous=lambda expression: _text(expression, columns, anonymous=True),
    )
    return KeptState(kind, tuple(_keys_of(kind, node, columns)), sides, calls, state_bounds(node, texts))


def _keys_of(kind: str, node: Any, columns: Columns) -> list[str]:
    if kind == "Aggregate":
        return _distinct_texts(each(node.groupingExpressions()), columns)
    if kind == "Join":
        condition = node.condition()
        parts = conjuncts(condition.get()) if condition.isDefined() else ()
        left, right = children_of(node)
        equal = [_equality(part, left, right, columns) for part in parts if part.nodeName() in _EQUALITIES]
        return [key for key in equal if key is not None]
    if kind == "Distinct":
        return _distinct_texts(each(node.output()), columns)
    if kind.startswith("Deduplicate"):
        return _distinct_texts(each(node.keys()), columns)
    return _grouping(node)


def _distinct_texts(expressions: Iterable[Any], columns: Columns) -> list[str]:
    """Return the expressions as texts. If two texts are equal, put the stream before each column name in all texts."""
    keys = list(expressions)
    plain = [_text(key, columns) for key in keys]
    return plain if len({*plain}) == len(plain) else [_text(key, columns, with_streams=True) for key in keys]


def _grouping(node: Any) -> list[str]:
    """Return the key columns of a node with arbitrary state; empty if the node's kind has no such keys."""
    with suppress(Py4JError):
        return [str(attribute.name()) for attribute in each(node.groupingAttributes())]
    with suppress(Py4JError):
        keys = int(node.groupingAttributesLen())
        return [str(attribute.name()) for attribute in islice(each(node.left().output()), keys)]
    return []


def _text(expression: Any, columns: Columns, *, with_streams: bool = False, anonymous: bool = False) -> str:
    """Return an expression as text that is equal in each plan of the same query.

    Table names and random seeds are removed. If the plan uses the current time, numbers and quoted texts become "#".
    Otherwise a short digest replaces each quoted text, because it may be a secret, and journal and errors show it.
    """
    text = str(expression.sql())
    if columns.uses_current_time:
        text = _NUMBER.sub("#", _LITERAL.sub("#", text))
    text = _LITERAL.sub(_digest, text)
    replacements: list[str] = []
    for column in each(expression.references().toSeq()):
        sql, name = str(column.sql()), columns.name_of(column, with_streams=with_streams, anonymous=anonymous)
        if sql != name:  # replace whole names only, not a field of a structure or the end of another name
            text = f"\0{len(replacements)}\0".join(re.split(rf"(?<![\w`.]){re.escape(sql)}(?![\w`])", text))
            replacements.append(name)
    for number, name in enumerate(replacements):
        text = text.replace(f"\0{number}\0", name)
    return _SEED.sub(r"\1()", text)


def _digest(literal: re.Match[str]) -> str:
    if literal[1]:
        return literal[0]  # an interval is no secret
    return f"'#{hashlib.sha256(literal[0].encode()).hexdigest()[:4]}'"


def _calls(node: Any, columns: Columns) -> tuple[str, ...]:
    """Return an aggregation's distinct calls, in the order of their use. Spark keeps each call's state only once.

    If there are more than ``_MANY`` expressions, return whole expressions, because each read costs a call of the JVM.
    """
    expressions = node.aggregateExpressions()
    if expressions.size() > _MANY:
        return tuple(dict.fromkeys(_text(expression, columns) for expression in each(expressions)))
    calls_in_plan = [call for expression in each(expressions) for call in _aggregates(expression)]
    calls = {_text(call, columns, with_streams=True): call for call in calls_in_plan}
    return tuple(_distinct_texts(calls.values(), columns))


def _aggregates(expression: Any) -> Iterator[Any]:
    if expression.nodeName() == "AggregateExpression":
        yield expression
        return
    for child in each(expression.children()):
        yield from _aggregates(child)


def _equality(node: Any, left: Any, right: Any, columns: Columns) -> str | None:
    """Return a join key as the text "left = right"; None if ``node`` compares with a constant, or within one side.

    ``node``: an equality in the condition of the join. ``left`` and ``right``: the joined plans.
    """
    first, second = node.left(), node.right()
    for left_side, right_side in ((first, second), (second, first)):
        if _is_of(left_side, left) and _is_of(right_side, right):
            return f"{_text(left_side, columns)} = {_text(right_side, columns)}"
    return None


def _is_of(expression: Any, side: Any) -> bool:
    columns = expression.references()
    return not columns.isEmpty() and bool(columns.subsetOf(side.outputSet()))
