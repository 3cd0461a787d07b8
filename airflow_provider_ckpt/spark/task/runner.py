"""Any runner of one attempt of a subtask on Spark."""

from __future__ import annotations

from airflow_provider_ckpt.spark.task.batch_runner import BatchRunner
from airflow_provider_ckpt.spark.task.split_runner import SplitRunner
from airflow_provider_ckpt.spark.task.streaming_runner import StreamingRunner

Runner = StreamingRunner | BatchRunner | SplitRunner
