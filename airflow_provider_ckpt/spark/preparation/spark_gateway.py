"""The gateway by which a JobMaster or worker commands the tasks in its own Spark application."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.preparation.task_factory import Runner
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.interruptions import silenced
from airflow_provider_ckpt.spark.task.streaming.progress_listener import ProgressListener
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.restarts import Restarts
from airflow_provider_ckpt.task.task import Task


class SparkGateway(LocalGateway):
    """The gateway to the tasks in this process. ``runners``: unfinished subtask -> runner of its first attempt."""

    def __init__(self, context: RunContext, runners: Mapping[SubtaskId, Runner], restarts: Restarts) -> None:
        def on_crash(task: Task, error: BaseException) -> None:
            report_crash(context, task.subtask, task.attempt, error)

        super().__init__(context.epoch, runners, on_crash, restarts)
        self._spark = context.spark
        measures = context.measures or context.options.overview_interval > 0
        self._listener = ProgressListener(self._tasks, measures=measures)

    def start(self) -> None:
        self._spark.streams.addListener(self._listener)

    def _stop_all(self) -> None:
        if self._tasks:
            with silenced(self._spark):
                super()._stop_all()
        else:
            super()._stop_all()
        if not is_gone():
            self._spark.streams.removeListener(self._listener)
