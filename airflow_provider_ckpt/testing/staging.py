"""A helper that stages a frame as a run does: with a new nonce, counted rows (R18) and functions on executors."""

from __future__ import annotations

import json
import uuid

from pyspark.sql import DataFrame

from airflow_provider_ckpt.sinks.result_checks import checked_handle_of
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.spark.task.over_partitions import over_partitions


def stage(sink: BoundSink, frame: DataFrame, batch_id: int, attempt: str = "a1") -> Handle:
    """Call ``sink.stage`` with a new nonce, and return the handle in the form that a process reads from a log.

    Raises SinkContractError for a handle that a run would refuse.
    """
    request = StageRequest(attempt, batch_id, uuid.uuid4().hex, counted, over_partitions)
    handle = checked_handle_of("lake", sink, sink.stage(frame, request), request)
    read_back: Handle = json.loads(json.dumps(handle))
    return read_back
