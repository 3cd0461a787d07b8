"""A listener that passes Spark's progress events to the runner of the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.spark.task.streaming.query_progress import SparkProgress
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.task.task import Task


class ProgressListener(StreamingQueryListener):
    """A listener for the progress event of a query, which comes right after Spark's commit of a batch.

    Only the query's id is read, in the JVM. PySpark would first convert the whole event to a Python object, which takes
    half a second of two cores. The batch would be published that much later.
    """

    def __init__(self, tasks: Mapping[SubtaskId, Task], *, measures: bool = False) -> None:
        """Make a listener.

        Args:
            tasks: subtask → the task of its current attempt. The caller updates the mapping, because the queries of all
                attempts have the same id.
            measures: True if the tasks need measurements of each micro-batch.
        """
        self._tasks, self.measures = tasks, measures
        self._wrapped: Any = None

    @property
    def _jlistener(self) -> Any:
        """The listener object that PySpark passes to the JVM.

        If another version of PySpark does not read this property, it calls ``onQueryProgress`` of this class.
        """
        if self._wrapped is None:
            jvm: Any = SparkContext._jvm
            self._wrapped = jvm.PythonStreamingQueryListenerWrapper(_JavaEvents(self))
        return self._wrapped

    def committed(self, query: str) -> None:
        """Notify the runner that the query with the id ``query`` has committed a micro-batch or had nothing to do."""
        for task in self._runners_of(query):
            task.on_progress()

    def measured(self, query: str, progress: SparkProgress | None) -> None:
        """Pass measurements of a micro-batch to the runner; None if the query has had nothing to do for a while."""
        for task in self._runners_of(query):
            task.measured(progress)

    def idle(self, query: str) -> None:
        """Notify the runner that the query has found nothing to read."""
        for task in self._runners_of(query):
            task.on_idle()

    def _runners_of(self, query: str) -> list[StreamingRunner]:
        tasks = list(self._tasks.values())
        return [task for task in tasks if isinstance(task, StreamingRunner) and task.query_id == query]

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.committed(str(event.progress.id))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.idle(str(event.id))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


class _JavaEvents:
    """Java's listener interface, implemented in Python. Its events are objects of the JVM."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress()
        query = progress.id().toString()
        self._listener.committed(query)  # first, because the publication waits for it
        if self._listener.measures:
            self._listener.measured(query, SparkProgress.of(progress))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        query = event.id().toString()
        self._listener.idle(query)
        if self._listener.measures:
            self._listener.measured(query, None)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012 - read by py4j
