"""What can be read off a query's analysed plan before it runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.spark.query.event_time import FOLLOWED, HOLD

WATERMARK = "EventTimeWatermark"
_NAME = re.compile(r'^name="(.*)"$')
"""As Spark tells one that was given; any other text says that none was."""
_MADE = re.compile(r"_groupingexpression|_common_expr_\d+|_extract_.+")
_CALLS_PYTHON = frozenset({"ArrowEvalPython", "BatchEvalPython"})
STATELESS = frozenset(
    {
        "AppendColumns",
        "ArrowEvalPython",
        "ArrowEvalPythonUDTF",
        "BatchEvalPython",
        "BatchEvalPythonUDTF",
        "CTERelationDef",
        "CTERelationRef",
        "CollectMetrics",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LateralJoin",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "SerializeFromObject",
        "Sort",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "UnresolvedHint",
        "View",
        "WithCTE",
    }
)
"""Operators that keep nothing from one micro-batch to the next. Whatever else Spark knows, or will, may."""


def analysed(frame: DataFrame) -> Any:
    """The plan as it is written."""
    return frame._jdf.queryExecution().analyzed()  # the plan has no public door in PySpark


def children_of(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(index) for index in range(children.size())]


def nodes_from(node: Any) -> Iterator[Any]:
    """Yield a node of a plan and all nodes below it."""
    yield node
    for child in children_of(node):
        yield from nodes_from(child)


def has_watermark(frame: DataFrame) -> bool:
    return any(map(_is_watermark, nodes_from(analysed(frame))))


def _is_watermark(node: Any) -> bool:
    """Whether the node is a watermark of the user's. One that holds event time is ours."""
    return bool(node.nodeName() == WATERMARK and node.eventTime().name() != HOLD)


def watermarks(frame: DataFrame) -> list[tuple[str, str]]:
    """(column, delay) of each watermark of the plan, the delay in Spark's words."""
    nodes = filter(_is_watermark, nodes_from(analysed(frame)))
    return [(str(node.eventTime().name()).removeprefix(FOLLOWED), str(node.delay().toString())) for node in nodes]


def followed_window(frame: DataFrame) -> str | None:
    """Return the column of a watermark that is set on windows; None without one."""
    times = (node.eventTime() for node in nodes_from(analysed(frame)) if _is_watermark(node))
    return next((str(time.name()) for time in times if time.dataType().typeName() == "struct"), None)


def is_stateful(frame: DataFrame) -> bool:
    """Whether a streaming query of the frame keeps something from one micro-batch to the next: aggregations,
    de-duplication, limits, arbitrary state, joins of two streams, and every operator that is not known to keep nothing.
    """
    return next(stateful_nodes(frame), None) is not None


def stateful_nodes(frame: DataFrame) -> Iterator[Any]:
    """Those that keep something, from the output downwards."""
    return stateful_below(analysed(frame))


def optimised(frame: DataFrame) -> Any:
    """The plan as Spark runs it, and keeps state by it: what is worked out in which order, and by what, follows from it
    and not from how the query is written. Nothing is read. Raises Py4JError."""
    plan = frame._jdf
    return plan.sparkSession().sessionState().optimizer().execute(plan.queryExecution().analyzed())


def stateful_below(node: Any) -> Iterator[Any]:
    """The same of a plan."""
    children = children_of(node)
    if not node.isStreaming() or not children:
        return  # what a stream is joined with is worked out anew in each batch
    if node.nodeName() == "Join":
        if all(child.isStreaming() for child in children):
            yield node
    elif node.nodeName() not in STATELESS:
        yield node
    for child in children:
        yield from stateful_below(child)


def joins_streams(frame: DataFrame) -> bool:
    """Two streams, or one with itself."""
    return any(
        node.nodeName() == "Join" and all(child.isStreaming() for child in children_of(node))
        for node in nodes_from(analysed(frame))
    )


def watermark_over(frame: DataFrame, ids: frozenset[int]) -> bool:
    """Whether some watermark of the plan sees a source with these column ids."""
    return any(_is_watermark(node) and _ids(node) & ids for node in nodes_from(analysed(frame)))


def streaming_leaves(frame: DataFrame) -> int:
    """How many streaming sources the frame reads."""
    return sum(1 for node in nodes_from(analysed(frame)) if not children_of(node) and node.isStreaming())


def streams(frame: DataFrame) -> Counter[str]:
    """How often the frame reads each stream, by the name that was given to it."""
    return streams_below(analysed(frame))


def streams_below(node: Any, named: Mapping[int, Any] | None = None) -> Counter[str]:
    """``named``: what SQL's WITH has named (:func:`with_definitions`); a use of it is a leaf of the plan. Without, only
    what is named is counted, once: a query may use it more often."""
    found: Counter[str] = Counter()
    for one in nodes_from(node):
        if one.nodeName().startswith("StreamingRelation"):
            found[_NAME.sub(r"\1", str(one.sourceIdentifyingName().toString()))] += 1
        elif named is not None and one.nodeName() == "CTERelationRef":
            found += streams_below(named[int(one.cteId())], named)
    return found


def with_definitions(plan: Any) -> dict[int, Any]:
    """What SQL's WITH has named, by the id that its uses have."""
    return {int(node.id()): node for node in nodes_from(plan) if node.nodeName() == "CTERelationDef"}


def columns_of_streams(plan: Any) -> dict[int, str]:
    """By the id of a column, the stream that gives it."""
    found: dict[int, str] = {}
    for leaf in nodes_from(plan):
        if leaf.nodeName().startswith("StreamingRelation"):
            (name,) = streams_below(leaf)
            output = leaf.output()
            found |= {int(output.apply(index).exprId().id()): name for index in range(output.size())}
    return found


def made_columns(plan: Any) -> dict[int, Any]:
    """By the id of a column that Spark has made up, what it is: Spark pulls keys that are no columns, what is worked
    out twice, fields of structures and calls of Python out of an expression, and numbers them as they come."""
    found: dict[int, Any] = {}
    for node in nodes_from(plan):
        if node.nodeName() == "Project":
            made = [
                one for one in each(node.projectList()) if one.nodeName() == "Alias" and _MADE.fullmatch(one.name())
            ]
            found |= {int(one.exprId().id()): one.child() for one in made}
        elif node.nodeName() in _CALLS_PYTHON:
            calls = zip(each(node.resultAttrs()), each(node.udfs()), strict=True)
            found |= {int(result.exprId().id()): call for result, call in calls}
    return found


def asks_the_time(plan: Any, spark: SparkSession) -> bool:
    """``now()`` and the like: constants of the plan as Spark runs it, and other ones in the next plan. What a query
    follows event time with asks, too, and is no part of what the user has written."""
    jvm: Any = spark._jvm
    pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not plan.containsPattern(pattern):
        return False
    expressions = (one for node in nodes_from(plan) for one in each(node.expressions()))
    return any(one.containsPattern(pattern) and not _follows_event_time(one) for one in expressions)


def _follows_event_time(expression: Any) -> bool:
    """Whether an expression of a plan makes the column that Spark follows instead of the user's."""
    return FOLLOWED in str(expression.sql())


def conjuncts(condition: Any) -> Iterator[Any]:
    """Yield the parts of a condition that AND connects."""
    if condition.nodeName() != "And":
        yield condition
        return
    for side in (condition.left(), condition.right()):
        yield from conjuncts(side)


def each(sequence: Any) -> Iterator[Any]:
    """Of Scala's."""
    return (sequence.apply(index) for index in range(sequence.size()))


def watermark_over_union(frame: DataFrame) -> bool:
    """A watermark that several inputs share: the fastest one makes rows of the others late."""

    def reaches_union(node: Any) -> bool:
        for child in children_of(node):
            if child.nodeName() == WATERMARK:
                continue
            if child.nodeName() == "Union" and child.isStreaming():
                return True
            if reaches_union(child):
                return True
        return False

    return any(_is_watermark(node) and reaches_union(node) for node in nodes_from(analysed(frame)))


def leaf_ids(frame: DataFrame) -> frozenset[int]:
    """The ids of the columns that the frame's sources give: they tell a source within a larger plan."""
    return frozenset(_ids(analysed(frame)))


def _ids(node: Any) -> set[int]:
    found: set[int] = set()
    for leaf in nodes_from(node):
        if not children_of(leaf):
            output = leaf.output()
            found |= {int(output.apply(index).exprId().id()) for index in range(output.size())}
    return found


def holds_watermark(frame: DataFrame, ids: frozenset[int]) -> bool:
    """Whether some watermark of the plan sees nothing but the sources with these column ids, beside others."""
    nodes = [*filter(_is_watermark, nodes_from(analysed(frame)))]
    return len(nodes) > 1 and any(_ids(node) <= ids for node in nodes)


def refusal(frame: DataFrame, output_mode: str) -> str | None:
    """Why Spark would refuse to run the streaming query in this output mode, None if it would not. Asked before
    anything is written: Spark itself says so only when the query is started."""
    spark = frame.sparkSession
    if spark.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "false":
        return None
    jvm: Any = spark._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    return _complaint(lambda: checker.checkForStreaming(analysed(frame), mode))


def batch_refusal(frame: DataFrame) -> str | None:
    """The same of a query in BATCH mode (``dropDuplicatesWithinWatermark``, say). Some operators are refused by the
    planner only (``applyInPandasWithState``)."""
    jvm: Any = frame.sparkSession._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    refused = _complaint(lambda: checker.checkForBatch(analysed(frame)))
    return refused or _complaint(lambda: frame._jdf.queryExecution().sparkPlan())


def _complaint(check: Callable[[], object]) -> str | None:
    try:
        check()
    except PySparkException as error:
        return str(error).partition(";\n")[0].partition("\n")[0].strip()
    return None
