"""The function that Spark calls for each batch of a query."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable

from pyspark.sql import DataFrame


class BatchFunction:
    """Calls ``method``, in Spark's thread. The JVM keeps it as long as it has the query, and the task keeps the query:
    held by it in turn, neither would ever be let go, and the query and its session would stay in the driver's memory
    (some 2 MB for each restart)."""

    def __init__(self, method: Callable[[DataFrame, int], None]) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        method = self._method()
        if method is None:
            raise RuntimeError("java.lang.InterruptedException: the task of this query is gone")
        try:
            method(frame, batch_id)
        except BaseException as error:
            _forget_locals(error)  # PySpark keeps what the function has raised beside it
            method = None
            raise


def _forget_locals(error: BaseException | None) -> None:
    """What the functions held in which it came up; where that was can still be told."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
