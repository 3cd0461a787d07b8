"""Spark's progress events, passed on to the runner of the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.spark.task.spark_progress import SparkProgress
from airflow_provider_ckpt.spark.task.streaming_runner import StreamingRunner
from airflow_provider_ckpt.task.task import Task


class ProgressListener(StreamingQueryListener):
    """A query's progress event comes right after Spark's commit of the batch.

    Of the event only the query's id is of interest, and it is asked for in the JVM. PySpark would make a Python object
    of all of it first: about half a second of two cores for an event, as the end of each Java map in it is an
    exception for which the class path is searched. The batch would be published so much later.
    """

    def __init__(self, tasks: Mapping[SubtaskId, Task], *, measures: bool = False) -> None:
        """``tasks``: by subtask, always those of the current attempts: an attempt's query has the id of the one
        before. ``measures``: the tasks are told how each micro-batch went, too."""
        self._tasks, self.measures = tasks, measures
        self._wrapped: Any = None

    @property
    def _jlistener(self) -> Any:
        """What PySpark hands to the JVM. A PySpark that asks for something else calls the methods below."""
        if self._wrapped is None:
            jvm: Any = SparkContext._jvm
            self._wrapped = jvm.PythonStreamingQueryListenerWrapper(_JavaEvents(self))
        return self._wrapped

    def committed(self, query: str) -> None:
        """``query``: the id of one that has committed a micro-batch, or had nothing to do."""
        for task in self._of(query):
            task.on_progress()

    def measured(self, query: str, progress: SparkProgress | None) -> None:
        """None: it has had nothing to do for a while."""
        for task in self._of(query):
            task.measured(progress)

    def idle(self, query: str) -> None:
        """Pass on that a query has found nothing to read."""
        for task in self._of(query):
            task.on_idle()

    def _of(self, query: str) -> list[StreamingRunner]:
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
    """Java's interface of a listener, implemented in Python: the events are the JVM's."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress()
        query = progress.id().toString()
        self._listener.committed(query)  # first: nobody waits for the rest
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
