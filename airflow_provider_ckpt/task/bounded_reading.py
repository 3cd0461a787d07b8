"""The steps of a task that reads its whole input and ends, apart from the reading itself.

The module has no threads and no Spark. The batch task, the task of a source with splits and the simulation use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.actions import Action, BuildQuery, EndData, EndPartition, PostReport, RunQuery
from airflow_provider_ckpt.task.machine import ReadProgress, TaskMachine
from airflow_provider_ckpt.task.publication import Publication

_NO_PROGRESS = ReadProgress(frozenset(), inputs_ended=True, batch_id=-1)


class BoundedReading:
    """The TaskMachine and the Publication of one attempt, both under the lock of the Publication.

    The lock is free between two calls, while the task reads and stages. ``reads`` are the task's sources and edges, all
    of them bounded. The order of calls is :meth:`deploy`, :meth:`begin`, any number of batches, :meth:`end`, and
    :meth:`finish` on command.
    """

    def __init__(self, reads: Collection[str], publication: Publication) -> None:
        self.publication = publication
        self._reads = frozenset(reads)
        self.machine = TaskMachine(publication.task_id, self._reads)

    def deploy(self, plan: VertexPlan) -> bool:
        """Start with ``plan``. Return True if there is input to read, so that the caller must call :meth:`begin`.

        If the log already has the end of data, report the end instead (R11).
        """
        with self.publication.lock:
            actions = self.machine.deploy(plan, self.publication.log.state.end_of_data)
            self._carry_out(actions)
            return any(isinstance(action, BuildQuery) for action in actions)

    def begin(self) -> None:
        """Report that the task runs. Call this when the task's input is ready."""
        with self.publication.lock:
            self._carry_out(self.machine.planned(self._reads, ends_by_itself=False, progress=_NO_PROGRESS))
            self._carry_out(self.machine.started(_NO_PROGRESS))

    def end(self) -> None:
        """Append the end of data to the log and report it. All batches must be published."""
        with self.publication.lock:
            self._carry_out(self.machine.advance(ReadProgress(self._reads, True, self.publication.last_batch())))

    def finish(self) -> None:
        with self.publication.lock:
            self._carry_out(self.machine.finish())

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case BuildQuery() | RunQuery():
                    """The caller reads: see the order of calls in the class."""
                case EndData(mode):
                    self.publication.end_of_data(mode)
                    self._carry_out(self.machine.data_ended())
                case EndPartition():
                    self.publication.end_of_partition()
                    self._carry_out(self.machine.partition_ended())
                case PostReport(report):
                    self.publication.post(report)
                case _:
                    raise AssertionError(f"{action}: this task reads all there is, and ends")
