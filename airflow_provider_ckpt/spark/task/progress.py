"""Spark's progress events, passed on to the runner of the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from airflow_provider_ckpt.spark.task.batch import BatchRunner
from airflow_provider_ckpt.spark.task.runner import VertexRunner
from airflow_provider_ckpt.spark.task.split_runner import SplitRunner

Runner = VertexRunner | BatchRunner | SplitRunner


class ProgressListener(StreamingQueryListener):
    """A query's progress event comes right after Spark's commit of the batch."""

    def __init__(self, runners: Mapping[str, Runner]) -> None:
        self._runners = runners

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        query = str(event.progress.id)
        for runner in list(self._runners.values()):
            if isinstance(runner, VertexRunner) and runner.query_id == query:
                runner.on_progress()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass
