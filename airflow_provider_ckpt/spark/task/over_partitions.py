"""Calls of a sink's function for each partition of a frame, in the Spark tasks that compute the partitions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame


def over_partitions(frame: DataFrame, function: Callable[[int, Iterator[Any]], Any]) -> list[Any]:
    """Call the function for each partition. Return the results of the task attempts that Spark accepts.

    See :class:`StageRequest`.
    """
    cloudpickle.register_pickle_by_value(sys.modules[function.__module__])  # type: ignore[no-untyped-call]

    def called(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        answer = function(context.taskAttemptId(), batches)  # type: ignore[union-attr]
        yield pyarrow.RecordBatch.from_pydict({"answer": [json.dumps(answer)]})

    return [json.loads(row.answer) for row in frame.mapInArrow(called, "answer string").collect()]
