"""What a query keeps from one micro-batch to the next, as far as its plan tells: by what, and of which streams.

Spark looks at the types of a state's columns alone when it goes on with it. The sides of a join that are swapped,
another key of the same type, or two sums in another order are of the same types: it would take one for the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from airflow_provider_ckpt.model.kept_state import KeptState
from airflow_provider_ckpt.spark.query.analysed_plan import children_of, stateful_nodes, streams_below, with_definitions

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
_QUALIFIER = re.compile(r"(?:`[^`]+`|[A-Za-z_]\w*)\.(?=[`A-Za-z_])")
_SEED = re.compile(r"\b(randn?|shuffle|uuid)\([^()]*\)")
"""Drawn anew for each plan."""


def kept_state(frame: DataFrame) -> list[KeptState]:
    """From the output downwards."""
    named = with_definitions(frame)
    return [_of(node, named) for node in stateful_nodes(frame)]


def _of(node: Any, named: Mapping[int, Any]) -> KeptState:
    kind, children = str(node.nodeName()), children_of(node)
    sides = tuple(tuple(sorted(streams_below(child, named))) for child in children)
    return KeptState(kind, tuple(_by(kind, node)), sides, _calls(node) if kind == "Aggregate" else ())


def _by(kind: str, node: Any) -> list[str]:
    if kind == "Aggregate":
        return [_text(key) for key in _each(node.groupingExpressions())]
    if kind == "Join":
        condition = node.condition()
        conjuncts = _conjuncts(condition.get()) if condition.isDefined() else ()
        equal = [_equality(one, *children_of(node)) for one in conjuncts if one.nodeName() in _EQUALITIES]
        return [one for one in equal if one is not None]
    if kind == "Distinct":
        return [str(one.name()) for one in _each(node.output())]
    if kind.startswith("Deduplicate"):
        return [str(one.name()) for one in _each(node.keys())]
    return _grouping(node)


def _grouping(node: Any) -> list[str]:
    """The keys of arbitrary state; none of what has no such thing."""
    with suppress(Py4JError):
        return [str(one.name()) for one in _each(node.groupingAttributes())]
    with suppress(Py4JError):
        keys = int(node.groupingAttributesLen())
        return [str(one.name()) for one in islice(_each(node.left().output()), keys)]
    return []


def _text(expression: Any) -> str:
    """Without the name of the table that a column is of, which may be another one, and without what is drawn."""
    return _SEED.sub(r"\1()", _QUALIFIER.sub("", str(expression.sql())))


def _calls(node: Any) -> tuple[str, ...]:
    """Each once, as it is kept once, in the order in which the expressions come to them."""
    calls = (_text(call) for one in _each(node.aggregateExpressions()) for call in _aggregates(one))
    return tuple(dict.fromkeys(calls))


def _aggregates(expression: Any) -> Iterator[Any]:
    if expression.nodeName() == "AggregateExpression":
        yield expression
        return
    for child in _each(expression.children()):
        yield from _aggregates(child)


def _equality(node: Any, left: Any, right: Any) -> str | None:
    """What of the left side and what of the right, whichever way round it is written. None if it is no key of the join:
    what is equal to a constant, or of one side alone."""
    one, other = node.left(), node.right()
    for mine, theirs in ((one, other), (other, one)):
        if _is_of(mine, left) and _is_of(theirs, right):
            return f"{_text(mine)} = {_text(theirs)}"
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
