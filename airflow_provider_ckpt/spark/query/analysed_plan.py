"""Functions that read facts about a query from Spark's analysed plan, before the query runs."""

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
"""Pattern of Spark's text for a named stream. The text of a stream without a name has another form."""
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
"""Names of plan nodes that keep no state. All other nodes count as stateful, also new ones of later Spark versions."""


def analysed(frame: DataFrame) -> Any:
    """Return Spark's analysed plan of a frame. Names are resolved, but Spark has optimised nothing."""
    return frame._jdf.queryExecution().analyzed()  # PySpark has no public method for the plan


def children_of(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(index) for index in range(children.size())]


def nodes_from(node: Any) -> Iterator[Any]:
    """Yield ``node`` and all nodes below it in the plan. A node comes before its children."""
    yield node
    for child in children_of(node):
        yield from nodes_from(child)


def has_watermark(frame: DataFrame) -> bool:
    return any(map(_is_watermark, nodes_from(analysed(frame))))


def _is_watermark(node: Any) -> bool:
    """Return whether the node sets a watermark. The watermark on the column ``HOLD`` of this package does not count."""
    return bool(node.nodeName() == WATERMARK and node.eventTime().name() != HOLD)


def watermarks(frame: DataFrame) -> list[tuple[str, str]]:
    """Return (the user's column, delay) of each watermark in the plan. The delay is Spark's text for an interval."""
    nodes = filter(_is_watermark, nodes_from(analysed(frame)))
    return [(str(node.eventTime().name()).removeprefix(FOLLOWED), str(node.delay().toString())) for node in nodes]


def followed_window(frame: DataFrame) -> str | None:
    """Return the first watermark column that holds windows instead of times; None if no watermark column does."""
    times = (node.eventTime() for node in nodes_from(analysed(frame)) if _is_watermark(node))
    return next((str(time.name()) for time in times if time.dataType().typeName() == "struct"), None)


def is_stateful(frame: DataFrame) -> bool:
    """Return whether a streaming query of the frame keeps state from one micro-batch to the next.

    Aggregations, de-duplication, limits, arbitrary state and joins of two streams keep state. Unknown operators count
    as stateful.
    """
    return next(stateful_nodes(frame), None) is not None


def stateful_nodes(frame: DataFrame) -> Iterator[Any]:
    """Yield the nodes of a frame's plan that keep state, from the output towards the sources."""
    return stateful_below(analysed(frame))


def optimised(frame: DataFrame) -> Any:
    """Return Spark's optimised plan of a frame, without reading data. It shows how Spark will lay out the state.

    Raises Py4JError.
    """
    plan = frame._jdf
    return plan.sparkSession().sessionState().optimizer().execute(plan.queryExecution().analyzed())


def stateful_below(node: Any) -> Iterator[Any]:
    """Yield ``node`` and the nodes below it that keep state. Parts of the plan that are not streaming are skipped."""
    children = children_of(node)
    if not node.isStreaming() or not children:
        return  # the static side of a join is computed again in each batch
    if node.nodeName() == "Join":
        if all(child.isStreaming() for child in children):
            yield node
    elif node.nodeName() not in STATELESS:
        yield node
    for child in children:
        yield from stateful_below(child)


def joins_streams(frame: DataFrame) -> bool:
    """Return whether the frame's plan has a join whose two sides are both streaming."""
    return any(
        node.nodeName() == "Join" and all(child.isStreaming() for child in children_of(node))
        for node in nodes_from(analysed(frame))
    )


def watermark_over(frame: DataFrame, ids: frozenset[int]) -> bool:
    """Return whether any watermark is set on rows that come from a source. ``ids``: the source's column ids."""
    return any(_is_watermark(node) and _ids(node) & ids for node in nodes_from(analysed(frame)))


def streaming_leaves(frame: DataFrame) -> int:
    """Return how many streaming reads the frame's plan has. A stream that is read twice counts twice."""
    return sum(1 for node in nodes_from(analysed(frame)) if not children_of(node) and node.isStreaming())


def streams(frame: DataFrame) -> Counter[str]:
    """Return stream name -> number of times that the frame reads the stream."""
    return streams_below(analysed(frame))


def streams_below(node: Any, named: Mapping[int, Any] | None = None) -> Counter[str]:
    """Return stream name -> number of times that a plan reads the stream.

    ``named``: result of :func:`with_definitions`. With it, the streams of a definition in SQL's WITH are counted again
    at each use of the definition. With None, uses are not counted.
    """
    names: Counter[str] = Counter()
    for below in nodes_from(node):
        if below.nodeName().startswith("StreamingRelation"):
            names[_NAME.sub(r"\1", str(below.sourceIdentifyingName().toString()))] += 1
        elif named is not None and below.nodeName() == "CTERelationRef":
            names += streams_below(named[int(below.cteId())], named)
    return names


def streams_in_order(frame: DataFrame) -> tuple[str, ...]:
    """Return the names of the streams that a frame reads, in the order in which Spark's progress events list them."""
    return tuple(streams(frame))


def with_definitions(plan: Any) -> dict[int, Any]:
    """Return id -> plan node of each definition in SQL's WITH. A node that uses the definition has the same id."""
    return {int(node.id()): node for node in nodes_from(plan) if node.nodeName() == "CTERelationDef"}


def columns_of_streams(plan: Any) -> dict[int, str]:
    """Return column id -> stream name, for the columns that a plan reads from streams."""
    columns: dict[int, str] = {}
    for leaf in nodes_from(plan):
        if leaf.nodeName().startswith("StreamingRelation"):
            (name,) = streams_below(leaf)
            output = leaf.output()
            columns |= {int(output.apply(index).exprId().id()): name for index in range(output.size())}
    return columns


def made_columns(plan: Any) -> dict[int, Any]:
    """Return column id -> expression, for columns that Spark generated.

    Spark generates columns for computed keys, repeated expressions, fields of structures and calls of Python functions.
    """
    columns: dict[int, Any] = {}
    for node in nodes_from(plan):
        if node.nodeName() == "Project":
            aliases = [
                expression
                for expression in each(node.projectList())
                if expression.nodeName() == "Alias" and _MADE.fullmatch(expression.name())
            ]
            columns |= {int(expression.exprId().id()): expression.child() for expression in aliases}
        elif node.nodeName() in _CALLS_PYTHON:
            calls = zip(each(node.resultAttrs()), each(node.udfs()), strict=True)
            columns |= {int(result.exprId().id()): call for result, call in calls}
    return columns


def uses_current_time(plan: Any, spark: SparkSession) -> bool:
    """Return whether the user's query uses the current time, such as ``now()``. ``plan``: the analysed plan.

    Spark's optimiser replaces the current time by a constant, so the optimised plan differs each time. The event-time
    column that this package adds does not count.
    """
    jvm: Any = spark._jvm
    pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not plan.containsPattern(pattern):
        return False
    expressions = (root for node in nodes_from(plan) for root in each(node.expressions()))
    return any(
        expression.containsPattern(pattern) and not _follows_event_time(expression) for expression in expressions
    )


def _follows_event_time(expression: Any) -> bool:
    """Return whether an expression belongs to the event-time column that this package adds."""
    return FOLLOWED in str(expression.sql())


def conjuncts(condition: Any) -> Iterator[Any]:
    """Yield the parts of a condition that AND connects; the condition itself if it has no AND."""
    if condition.nodeName() != "And":
        yield condition
        return
    for side in (condition.left(), condition.right()):
        yield from conjuncts(side)


def each(sequence: Any) -> Iterator[Any]:
    """Iterate over a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))


def watermark_over_union(frame: DataFrame) -> bool:
    """Return whether a watermark is set on a union of streams. Its fastest input would make rows of other inputs late.

    A union does not count if another watermark is set between the union and this watermark.
    """

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
    """Return the ids of the columns that the frame's sources output. A larger plan has the same ids."""
    return frozenset(_ids(analysed(frame)))


def _ids(node: Any) -> set[int]:
    ids: set[int] = set()
    for leaf in nodes_from(node):
        if not children_of(leaf):
            output = leaf.output()
            ids |= {int(output.apply(index).exprId().id()) for index in range(output.size())}
    return ids


def holds_watermark(frame: DataFrame, ids: frozenset[int]) -> bool:
    """Return whether the frame has several watermarks, and any watermark is set only on rows of the given sources.

    ``ids``: column ids of these sources.
    """
    nodes = [*filter(_is_watermark, nodes_from(analysed(frame)))]
    return len(nodes) > 1 and any(_ids(node) <= ids for node in nodes)


def refusal(frame: DataFrame, output_mode: str) -> str | None:
    """Return why Spark would refuse to start the streaming query in this output mode; None if Spark would start it."""
    spark = frame.sparkSession
    if spark.conf.get("spark.sql.streaming.unsupportedOperationCheck") == "false":
        return None
    jvm: Any = spark._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    return _complaint(lambda: checker.checkForStreaming(analysed(frame), mode))


def batch_refusal(frame: DataFrame) -> str | None:
    """Return why Spark would refuse the query in batch mode; None if Spark would run it."""
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
