"""The context of one attempt of a subtask: its identity, its log and its means to report."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_provider_ckpt.coordinator.protocol.reports import DataAvailable, SinkAwaited
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.sink_wait import SinkWait


class AttemptContext:
    """The context of one attempt of a subtask. It is thread-safe."""

    def __init__(
        self,
        run: RunContext,
        subtask: SubtaskId,
        attempt: AttemptId,
        log: SubtaskLog,
        parallelism: Mapping[str, int] | None = None,
    ) -> None:
        self.run, self.subtask, self.attempt, self.log = run, subtask, attempt, log
        self.task_id = TaskId(run.epoch, subtask, attempt)
        graph = run.graph.rescaled(parallelism or {})
        self._consumers = tuple(consumer for consumer, _ in readers(graph, subtask))

    def notify_consumers(self) -> None:
        if self._consumers:
            self.run.post(DataAvailable(*self.task_id, self._consumers))

    def wait(self, sink: str, is_over: Callable[[], bool]) -> SinkWait:
        """Return the object that retries failed calls of ``sink`` for one batch. It reports waits to the JobMaster."""

        def report(seconds: float, error: CkptError) -> None:
            self.run.post(SinkAwaited(*self.task_id, sink, seconds, str(error)))

        return SinkWait(self.run.options.sink_timeout, is_over=is_over, check_fenced=self.check_fenced, report=report)

    def check_fenced(self) -> None:
        """Raise FencedError if a later driver owns the job, or LogFencedError if a later attempt owns the log (R8)."""
        self.run.check_fenced()
        self.log.check_fenced()
