"""The common part of the runners of a batch vertex and of a source with splits.

The driver's loop calls the commands. A thread of the runner reads, stages and publishes. Both threads use one
:class:`BoundedReading`, whose lock is free while Spark works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_provider_ckpt.coordinator.protocol.reports import FilesChanged, ReconfigurationUnfit
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.publication import Publication


class BoundedRunner:
    """One attempt of one subtask with bounded input.

    Create ``reading`` with ``publication_of(context)``, so that both write to the log of the same attempt.
    """

    def __init__(self, context: AttemptContext, vertex: JobVertex, outputs: Outputs, reading: BoundedReading) -> None:
        self.vertex, self.subtask, self.attempt, self.log = vertex, context.subtask, context.attempt, context.log
        self._context, self._run, self._outputs = context, context.run, outputs
        self._reading = reading

    # ---- the driver's loop: commands

    def trigger(self, checkpoint: int) -> None:
        self._reading.publication.trigger(checkpoint)

    def pause(self, reason: PauseReason) -> None:
        raise AssertionError(f"{reason}: a task with bounded input is never paused")

    def resume(self, plan: VertexPlan) -> None:
        raise AssertionError(f"{plan}: a task with bounded input is never paused")

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        cause = "it reads all of its input once, and then ends"
        self._run.post(ReconfigurationUnfit(*self._context.task_id, trial, cause))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        raise AssertionError(f"{splits}: {self.subtask} reads no splits")

    def drain(self, *, at_once: bool = False) -> None:
        """Do nothing, because all inputs end by themselves."""

    def finish(self) -> None:
        self._reading.finish()

    # ---- the driver's loop: the rest

    def pull_inputs(self) -> None:
        """Do nothing, because all inputs were complete at the start."""

    def check(self) -> None:
        """Do nothing, because the runner's own thread reports failures."""

    def late_files(self) -> set[str]:
        """Return an empty set, because only frozen files or the files of the user's function are read."""
        return set()

    def changed_files(self) -> list[FilesChanged]:
        """Return an empty list, because files are compared before their rows are published."""
        return []

    # ---- the runner's thread

    def _staged(self, stage: Callable[[], Prepared]) -> Prepared:
        """Stage the output, and check the fences before and after (R8).

        Raises FencedError, LogFencedError.
        """
        self._context.check_fenced()
        prepared = stage()
        self._context.check_fenced()
        return prepared


def publication_of(context: AttemptContext) -> Publication:
    return Publication(context.log, context.task_id, post=context.run.post, notify=context.notify_consumers)
