"""What the runners of a batch vertex and of a source with splits have in common: they read what there is, and end.

The driver's loop calls the commands; a thread of the runner reads, stages and publishes. Both go through one
:class:`BoundedReading`, whose lock nobody holds while Spark works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from airflow_provider_ckpt.coordinator.reports import FilesChanged, ReconfigurationUnfit
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.prepared_store import Prepared
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.publication import Publication


class BoundedRunner:
    """One attempt of one subtask. ``reading``: over :func:`publication_of` the same context."""

    def __init__(self, context: AttemptContext, vertex: JobVertex, outputs: Outputs, reading: BoundedReading) -> None:
        self.vertex, self.subtask, self.attempt, self.log = vertex, context.subtask, context.attempt, context.log
        self._context, self._run, self._outputs = context, context.run, outputs
        self._reading = reading

    # ---- the driver's loop: commands

    def trigger(self, checkpoint: int) -> None:
        self._reading.publication.trigger(checkpoint)

    def pause(self, reason: PauseReason) -> None:
        raise AssertionError(f"{reason}: a task that reads what there is does not stand still")

    def resume(self, plan: VertexPlan) -> None:
        raise AssertionError(f"{plan}: a task that reads what there is does not stand still")

    def prepare(self, trial: str, plan: VertexPlan) -> None:
        cause = "it reads all there is, and ends"
        self._run.post(ReconfigurationUnfit(*self._context.task_id, trial, cause))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        raise AssertionError(f"{splits}: {self.subtask} reads what was frozen")

    def drain(self, *, at_once: bool = False) -> None:
        """Nothing: all that it reads ends by itself."""

    def finish(self) -> None:
        self._reading.finish()

    # ---- the driver's loop: the rest

    def pull_inputs(self) -> None:
        """Nothing: it has none, or starts when they are complete."""

    def check(self) -> None:
        """Nothing: what it fails with is reported by its thread."""

    def late_files(self) -> set[str]:
        """None: it reads what was frozen, or what the user's function gives."""
        return set()

    def changed_files(self) -> list[FilesChanged]:
        """None: files are compared before what was read of them is published."""
        return []

    # ---- the runner's thread

    def _staged(self, stage: Callable[[], Prepared]) -> Prepared:
        """Raises FencedError and LogFencedError, before and after it (R8)."""
        self._context.check_fenced()
        prepared = stage()
        self._context.check_fenced()
        return prepared


def publication_of(context: AttemptContext) -> Publication:
    return Publication(context.log, context.task_id, tell=context.run.post, notify=context.notify_consumers)


def batch_of(
    prepared: Prepared,
    *,
    inputs: Mapping[str, int] | None = None,
    ended: tuple[str, ...] = (),
) -> Batch:
    """The entry of what was staged. It has no offsets: it was read as a whole."""
    handles = {uid: dict(handle) for uid, handle in prepared.handles.items()}
    return Batch(
        prepared.batch_id,
        {},
        inputs or {},
        prepared.files,
        handles,
        ended=ended,
        rows=prepared.rows,
        malformed=prepared.malformed,
    )
