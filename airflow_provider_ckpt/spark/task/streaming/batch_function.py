"""The function that Spark calls for each batch of a query."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable

from pyspark.sql import DataFrame


class BatchFunction:
    """A function for ``foreachBatch`` with only a weak reference to its ``method``.

    The JVM refers to this function as long as the query exists, and the task refers to the query. A strong reference to
    the task would close the cycle, and each restart would leave about 2 MB in the driver's memory.
    """

    def __init__(self, method: Callable[[DataFrame, int], None]) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        method = self._method()
        if method is None:
            raise RuntimeError("java.lang.InterruptedException: the task of this query is gone")
        try:
            method(frame, batch_id)
        except BaseException as error:
            _forget_locals(error)  # PySpark keeps the error together with this function
            method = None
            raise


def _forget_locals(error: BaseException | None) -> None:
    """Free the local variables of the error's frames. Its traceback stays readable."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
