"""A task that reads what there is and ends: what it does beside reading.

No threads and no Spark here: the batch task, the task of a source with splits and the simulation run this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.task.actions import Action, BuildQuery, EndData, EndPartition, RunQuery, Tell
from airflow_provider_ckpt.task.machine import Seen, TaskMachine
from airflow_provider_ckpt.task.publication import Publication

_NOTHING = Seen(frozenset(), inputs_ended=True, batch_id=-1)


class BoundedReading:
    """The machine of one attempt beside its publication, under the publication's lock. The lock is not held between
    two calls, that is, while something is read and staged. ``reads``: its sources and edges, all of them bounded.

    In this order: :meth:`deploy`, :meth:`begin`, any number of batches, :meth:`end`; :meth:`finish` when it is told to.
    """

    def __init__(self, reads: Collection[str], publication: Publication) -> None:
        self.publication = publication
        self._reads = frozenset(reads)
        self.machine = TaskMachine(publication.task_id, self._reads)

    def deploy(self, plan: VertexPlan) -> bool:
        """Returns whether something is to be read: then call :meth:`begin`. Else the end is in the log already, and is
        told (R11)."""
        with self.publication.lock:
            actions = self.machine.deploy(plan, self.publication.log.state.end_of_data)
            self._carry_out(actions)
            return any(isinstance(action, BuildQuery) for action in actions)

    def begin(self) -> None:
        """What is to be read is at hand: say that it runs."""
        with self.publication.lock:
            self._carry_out(self.machine.planned(self._reads, runs_out=False, seen=_NOTHING))
            self._carry_out(self.machine.started(_NOTHING))

    def end(self) -> None:
        """All of it is published: put the end of data into the log, and say so."""
        with self.publication.lock:
            self._carry_out(self.machine.advance(Seen(self._reads, True, self.publication.last_batch())))

    def finish(self) -> None:
        with self.publication.lock:
            self._carry_out(self.machine.finish())

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case BuildQuery() | RunQuery():
                    """What is read next is for whoever calls: see the order above."""
                case EndData(mode):
                    self.publication.end_of_data(mode)
                    self._carry_out(self.machine.data_ended())
                case EndPartition():
                    self.publication.end_of_partition()
                    self._carry_out(self.machine.partition_ended())
                case Tell(report):
                    self.publication.tell(report)
                case _:
                    raise AssertionError(f"{action}: this task reads all there is, and ends")
