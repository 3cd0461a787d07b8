"""What a query keeps from one micro-batch to the next, as far as its plan tells: by what, and of which streams.

Spark looks at the types of a state's columns alone when it goes on with it. The sides of a join that are swapped,
another key of the same type, or two sums in another order are of the same types: it would take one for the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from airflow_provider_ckpt.spark.query.analysed_plan import children_of, stateful_nodes, streams_below

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})


@dataclass(frozen=True)
class KeptState:
    """Of one operator of Spark's. ``by``: the names of its keys and columns, in their order; of a join, what has to be
    equal. ``sides``: the streams of each side of a join."""

    kind: str
    by: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        of = f" of {' with '.join(' and '.join(side) for side in self.sides)}" if self.sides else ""
        return f"{self.kind}{by}{of}"


def kept_state(frame: DataFrame) -> list[KeptState]:
    """From the output downwards."""
    return [_of(node) for node in stateful_nodes(frame)]


def _of(node: Any) -> KeptState:
    kind, children = str(node.nodeName()), children_of(node)
    sides = tuple(tuple(sorted(streams_below(child))) for child in children) if len(children) > 1 else ()
    return KeptState(kind, tuple(_by(kind, node)), sides)


def _by(kind: str, node: Any) -> list[str]:
    if kind == "Aggregate":
        keys = [str(key.sql()) for key in _each(node.groupingExpressions())]
        return [*keys, *(str(one.name()) for one in _each(node.output()))]
    if kind == "Join":
        condition = node.condition()
        conjuncts = _conjuncts(condition.get()) if condition.isDefined() else ()
        return [str(one.sql()) for one in conjuncts if one.nodeName() in _EQUALITIES]
    names = "keys" if kind.startswith("Deduplicate") else "groupingAttributes"
    try:
        return [str(one.name()) for one in _each(getattr(node, names)())]
    except Py4JError:
        return []  # it has no such thing


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition.nodeName() != "And":
        yield condition
        return
    for side in (condition.left(), condition.right()):
        yield from _conjuncts(side)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))
