"""The boundary between two micro-batches. A query stops there before its plan changes, and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_provider_ckpt.spark.plan.builder import BuiltQuery
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.subtasklog.records import EndMode


class QueryBoundary:
    """The boundary of one attempt's query. The runner's own thread calls all methods.

    A planned batch that is not committed runs under the plan that it was made for.

    Args:
        build: builds the query of the current plan. Its argument is True if bounded inputs hold back event time.
    """

    def __init__(self, query: RunningQuery, folder: SparkFolder, build: Callable[[bool], BuiltQuery]) -> None:
        self._query, self._folder, self._build = query, folder, build

    def stop_query(self) -> None:
        """Stop the query at a boundary: every batch that it has planned is committed (R2)."""
        self._query.stop_after_batch()
        if not self._folder.is_at_boundary():
            self._run_planned()

    def run_at(self, watermark: int) -> None:
        """Run a batch without data at a watermark in epoch milliseconds, if the query's watermark is lower.

        The query must be stopped at a boundary.
        """
        commit = self._folder.newest_commit()
        if commit is None:
            return
        current = max(self._folder.planned_watermark(commit), self._folder.watermark_after(commit) or 0)
        if current < watermark:  # a lower watermark would accept rows of windows that are closed
            self._folder.plan_batch_at(watermark, commit, int(time.time() * 1000))
            self._run_planned()

    def end(self, mode: EndMode, built: BuiltQuery) -> None:
        """Stop the query without further reading, and fire its windows (R12). ``built`` is the query that has run."""
        if mode == "finish" or self._folder.is_final():
            self._query.stop_after_batch()
            self._finish_planned()
        else:
            self.stop_query()
        self._fire_windows(built)

    def _finish_planned(self) -> None:
        if self._folder.is_at_boundary():
            return
        if self._folder.is_final():
            self._run_planned()
        else:
            self._folder.delete_planned()  # all sources are at their ends, so only late files can be planned

    def _fire_windows(self, built: BuiltQuery) -> None:
        """Run a final batch at the maximal watermark, which closes the last windows, like Flink's MAX_WATERMARK.

        No batch runs if the query has committed none, or if its final batch is already planned. A query needs no final
        batch if it has neither a final result nor state with a watermark.

        Spark's ``availableNow`` would not close these windows. A query that publishes only its final result outputs the
        result in this batch.
        """
        commit = self._folder.newest_commit()
        has_last_rows = built.final or (built.watermark and built.stateful)
        if commit is None or not has_last_rows or self._folder.is_final():
            return
        self._folder.plan_final_batch(commit, int(time.time() * 1000))
        self._run_planned()

    def _run_planned(self) -> None:
        """Run the planned batch. In the final batch, bounded inputs do not hold back event time.

        If they did, rows would have two watermarks, which Spark refuses when event time has passed the inputs' start.
        """
        self._query.run_planned(self._build(not self._folder.is_final()))
