"""Tells the JobMaster when the micro-batch that runs is going to end, by how long the one before took."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_provider_ckpt.coordinator.reports import BatchUnderWay, Report
from airflow_provider_ckpt.model.task_id import TaskId


class BatchPace:
    """Of one attempt of one subtask. ``tell``: None, and nobody is told. Calls come one behind the other: Spark runs
    one batch at a time, and a batch is published once."""

    def __init__(self, task_id: TaskId, tell: Callable[[Report], None] | None) -> None:
        self._task_id, self._tell = task_id, tell
        self._begun: float | None = None
        self._took: float | None = None
        """Seconds, of the last batch; the first one of a query is no measure, and nothing comes before it."""

    def begins(self) -> None:
        """In Spark's thread, before a batch is staged."""
        self._begun = time.monotonic()
        if self._tell is not None and self._took is not None:
            self._tell(BatchUnderWay(*self._task_id, self._took))

    def published(self) -> None:
        """In whatever thread publishes it."""
        if self._begun is None:
            return  # of the attempt before
        self._took, self._begun = time.monotonic() - self._begun, None
        if self._tell is not None:
            self._tell(BatchUnderWay(*self._task_id, None))
