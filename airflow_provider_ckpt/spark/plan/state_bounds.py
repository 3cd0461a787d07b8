"""Bounds of a query's state: lengths of windows, gaps of sessions, time conditions of joins, and timeouts.

Bounds determine which rows are aggregated together, and how long Spark keeps their state. Spark does not compare them
when a query resumes. So three-hour windows would continue with the state of one-hour windows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from airflow_provider_ckpt.spark.query.analysed_plan import children_of, conjuncts, each, nodes_from
from airflow_provider_ckpt.spark.query.event_time import MARK

_WINDOW, _SESSION = "spark.timeWindow", "spark.sessionWindow"
"""Keys in a column's metadata by which Spark marks a column of windows, or of session windows."""
_SLIDE, _START, _LENGTH = re.compile(r"% (\d+)L"), re.compile(r"- (\d+)L\) %"), re.compile(r"\+ (\d+)L")
_GAP = re.compile(r"\+ (.*?)\)*$")
_INTERVAL = re.compile(r"INTERVAL '([^']*)'")
_UNITS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
"""Unit of time -> its length in microseconds. The longest unit is first."""


@dataclass(frozen=True)
class ExpressionTexts:
    """Functions that turn expressions of a plan into texts.

    Attributes:
        generated: id of a column that Spark generated -> the column's expression.
        named: returns an expression as text.
        anonymous: returns an expression as text with "_" for column names, because a column may be renamed.
    """

    generated: Mapping[int, Any]
    named: Callable[[Any], str]
    anonymous: Callable[[Any], str]


def state_bounds(node: Any, texts: ExpressionTexts) -> tuple[str, ...]:
    """Return the bounds of a stateful node of an optimised plan, as texts such as "window of 1 hour"."""
    kind = str(node.nodeName())
    if kind == "Aggregate":
        return tuple(_keys(node, texts))
    if kind == "DeduplicateWithinWatermark":
        return tuple(f"duplicates within {_duration(delay)}" for delay in _delays(node))
    if kind == "Join":
        return tuple(_time_bounds(node, texts))
    return tuple(_of_function(node))


def _keys(node: Any, texts: ExpressionTexts) -> Iterator[str]:
    """Yield the keys of an aggregation as texts: windows, sessions and computed keys. Plain columns are left out."""
    for expression in each(node.groupingExpressions()):
        if expression.nodeName() != "AttributeReference":
            yield _key(expression, texts)
        elif _has(expression, _WINDOW) and (expression_of_key := _definition(node, expression)) is not None:
            yield _window(str(expression_of_key.sql()))
        elif _has(expression, _SESSION) and (expression_of_key := _definition(node, expression)) is not None:
            yield _session(texts.named(expression_of_key))
        elif (expression_of_key := texts.generated.get(int(expression.exprId().id()))) is not None:
            yield _key(expression_of_key, texts)


def _key(expression: Any, texts: ExpressionTexts) -> str:
    text = texts.anonymous(expression)
    return f"key of a {_window(text)}" if _SLIDE.search(text) and "precisetimestamp" in text else f"key {text}"


def _has(column: Any, mark: str) -> bool:
    return bool(column.metadata().contains(mark))


def _definition(node: Any, column: Any) -> Any:
    """Return the expression that computes a column at or below ``node``; None if no node there computes it.

    Spark computes a sliding window by several expressions. The first one is returned, because it shows all bounds.
    """
    number = int(column.exprId().id())
    for below in nodes_from(node):
        if below.nodeName() == "Project":
            for named in each(below.projectList()):
                if named.nodeName() == "Alias" and int(named.exprId().id()) == number:
                    return named.child()
        elif below.nodeName() == "Expand":
            for index, output in enumerate(each(below.output())):
                if int(output.exprId().id()) == number:
                    return below.projections().apply(0).apply(index)
    return None


def _window(sql: str) -> str:
    """Return a window as text, such as "window of 1 hour". ``sql``: the arithmetic by which Spark computes it."""
    slide, start, length = (
        int(matches[-1]) if (matches := pattern.findall(sql)) else 0 for pattern in (_SLIDE, _START, _LENGTH)
    )
    slide_text = f" every {_duration(slide)}" if slide != length else ""
    start_text = f" starting at {_duration(start)}" if start else ""
    return f"window of {_duration(length)}{slide_text}{start_text}"


def _session(text: str) -> str:
    gap = match[1] if (match := _GAP.search(text)) else text
    plain = _INTERVAL.sub(lambda interval: interval[1], gap)
    return f"session gap of {plain}"


def _delays(node: Any) -> Iterator[int]:
    """Yield the watermark's delay in microseconds, for each input column of ``node`` with a watermark."""
    for column in each(children_of(node)[0].output()):
        if _has(column, MARK):
            yield int(column.metadata().getLong(MARK)) * 1000


def _time_bounds(node: Any, texts: ExpressionTexts) -> Iterator[str]:
    """Yield the conditions of a join that use event time, as texts. Equalities are left out, because they are keys."""
    condition = node.condition()
    for conjunct in conjuncts(condition.get()) if condition.isDefined() else ():
        compares_time = any(_has(column, MARK) for column in each(conjunct.references().toSeq()))
        if compares_time and conjunct.nodeName() not in ("EqualTo", "EqualNullSafe"):
            yield texts.named(conjunct)


def _of_function(node: Any) -> Iterator[str]:
    """Yield timeout, time mode and name of a user's stateful function, as texts. Spark's node may lack any of them.

    In Spark, every ``StatefulProcessor`` has the same name.
    """
    for name, member in (("timeout", "timeout"), ("time mode", "timeMode")):
        with suppress(Py4JError):
            yield f"{name} {getattr(node, member)().toString()}"
    with suppress(Py4JError):
        yield f"function {node.functionExpr().name()}"


def _duration(microseconds: int) -> str:
    for unit, size in _UNITS.items():
        if microseconds and microseconds % size == 0:
            count = microseconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{microseconds / 1_000_000:g} seconds"
