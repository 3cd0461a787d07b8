"""The boundary between two micro-batches: a query is brought there before its plan changes, and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_provider_ckpt.partitions.records import EndMode
from airflow_provider_ckpt.spark.query.builder import BuiltQuery
from airflow_provider_ckpt.spark.task.running_query import RunningQuery
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder


class QueryBoundary:
    """Of one attempt; the runner's own thread calls all of it. ``build``: builds the query of the current plan; its
    flag says whether history holds event time. A batch that is planned and not committed runs under the plan it was
    made for."""

    def __init__(self, query: RunningQuery, folder: SparkFolder, build: Callable[[bool], BuiltQuery]) -> None:
        self._query, self._folder, self._build = query, folder, build

    def stand_still(self) -> None:
        """Stop with newest offsets = newest commits (R2)."""
        self._query.stop_after_batch()
        if not self._folder.at_boundary():
            self._run_planned()

    def end(self, mode: EndMode, built: BuiltQuery) -> None:
        """Nothing more is read, and windows fire (R12). ``built``: the query that has run."""
        if mode == "finish" or self._folder.is_final():
            self._query.stop_after_batch()
            self._finish_planned()
        else:
            self.stand_still()
        self._fire_windows(built)

    def _finish_planned(self) -> None:
        if self._folder.at_boundary():
            return
        if self._folder.is_final():
            self._run_planned()
        else:
            self._folder.forget_planned()  # every source is read to its end: the plan can hold late files only

    def _fire_windows(self, built: BuiltQuery) -> None:
        """Flink's MAX_WATERMARK: Spark has no such thing, ``availableNow`` leaves the last windows in state. The same
        batch outputs the final answer of a query that publishes nothing else."""
        commit = self._folder.newest_commit()
        has_last_rows = built.final or (built.watermark and built.stateful)
        if commit is None or not has_last_rows or self._folder.is_final():
            return
        self._folder.plan_final_batch(commit, int(time.time() * 1000))
        self._run_planned()

    def _run_planned(self) -> None:
        """The final batch reads nothing, so nothing is held: Spark refuses two watermarks of a row once event time is
        past its start."""
        self._query.run_planned(self._build(not self._folder.is_final()))
