"""The final answer of an aggregate whose inputs end.

An aggregate without windows outputs a group again whenever a micro-batch changes the group. A query that reads this
output would take each change for a new row. So only each group's result at the end of all inputs is published.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_ckpt.spark.query.analysed_plan import has_watermark, refusal, stateful_nodes

_ROWS_ONCE = frozenset(
    {"Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "LocalLimit", "Join"}
)  # fmt: skip
"""Operators that never output a row again, whatever the output mode."""


def final_answer_mode(frame: DataFrame, output_mode: str, *, is_read: bool) -> str | None:
    """Return the output mode of a bounded query that publishes only its final answer; None if it publishes each batch.

    The final answer itself is output in mode "complete". In mode "append", a query has a final answer only if Spark
    cannot run it in that mode. In another mode, it has one only if other queries or jobs read its output (``is_read``).
    """
    if not any(node.nodeName() == "Aggregate" for node in stateful_nodes(frame)):
        return None
    is_wanted = is_read if output_mode != "append" else refusal(frame, "append") is not None
    if not is_wanted or refusal(frame, "complete") is not None:
        return None
    # "update" reads only the groups that a micro-batch changes, but forgets windows older than the watermark
    return "complete" if has_watermark(frame) or refusal(frame, "update") is not None else "update"


def changes_rows(frame: DataFrame, output_mode: str) -> bool:
    """Return whether the query may output a row that replaces an earlier row."""
    return output_mode != "append" and any(node.nodeName() not in _ROWS_ONCE for node in stateful_nodes(frame))
