"""The final answer of an aggregate: one row for each group, output when all inputs have ended.

An aggregate without windows outputs a group again whenever a micro-batch changes the group. A query that reads this
output would take each change for a new row. So only the final answer is published.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_ckpt.spark.query.analysed_plan import has_watermark, refusal, stateful_nodes

_ROWS_ONCE = frozenset(
    {"Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "LocalLimit", "Join"}
)  # fmt: skip
"""Names of stateful plan nodes that output each row only once, in every output mode."""


def final_answer_mode(frame: DataFrame, output_mode: str, *, is_read: bool) -> str | None:
    """Return the output mode of a bounded query that publishes only its final answer; None if it publishes each batch.

    ``output_mode`` is the mode that the user has declared. With "append", only a query that Spark cannot run in that
    mode has a final answer. With "complete" or "update", only a query whose output other queries or jobs read
    (``is_read``) has one. The last micro-batch always runs in mode "complete".
    """
    if not any(node.nodeName() == "Aggregate" for node in stateful_nodes(frame)):
        return None
    is_wanted = is_read if output_mode != "append" else refusal(frame, "append") is not None
    if not is_wanted or refusal(frame, "complete") is not None:
        return None
    # "update" reads only the groups that a micro-batch changes, but forgets windows older than the watermark
    return "complete" if has_watermark(frame) or refusal(frame, "update") is not None else "update"


def changes_rows(frame: DataFrame, output_mode: str) -> bool:
    """Return whether the query may output a row that replaces a row of an earlier micro-batch."""
    return output_mode != "append" and any(node.nodeName() not in _ROWS_ONCE for node in stateful_nodes(frame))
