"""Detection of queries that would get names of internal files from ``input_file_name()`` or ``_metadata``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from airflow_provider_ckpt.spark.query.analysed_plan import analysed, children_of, each, leaf_ids, nodes_from

_FUNCTIONS = {
    "InputFileName": "input_file_name()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
}
_METADATA_COLUMN = "__metadata_col"
"""Metadata key by which Spark marks a column that a source provides only on demand."""


def internal_files_named(frame: DataFrame, edges: Mapping[str, DataFrame]) -> tuple[str, str] | None:
    """Return (edge uid, function or column) of the first use that would name files of an edge's result partition.

    Return None if there is no such use. ``edges``: edge uid -> frame that reads the edge.
    """
    ids = {uid: leaf_ids(edge) for uid, edge in edges.items()}
    if not ids:
        return None
    for node in nodes_from(analysed(frame)):
        use = _internal_file_use(node)
        if use is None:
            continue
        below = {
            int(attribute.exprId().id())
            for leaf in nodes_from(node)
            if not children_of(leaf)
            for attribute in _output(leaf)
        }
        edge = next((uid for uid, its in ids.items() if its & below), None)
        if edge is not None:
            return edge, use
    return None


def _internal_file_use(node: Any) -> str | None:
    if not children_of(node):
        is_asked = any(column.metadata().contains(_METADATA_COLUMN) for column in _output(node))
        return "_metadata" if is_asked else None
    expressions = (part for root in each(node.expressions()) for part in _parts(root))
    return next(
        (_FUNCTIONS[name] for expression in expressions if (name := str(expression.nodeName())) in _FUNCTIONS), None
    )


def _output(node: Any) -> Iterator[Any]:
    return each(node.output())


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    for child in each(expression.children()):
        yield from _parts(child)
