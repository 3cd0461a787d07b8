"""The real standby worker in the simulation: it polls once a step, and works once it has taken subtasks over."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.errors import SubtaskTakenError
from airflow_provider_ckpt.remote.standby import Standby
from airflow_provider_ckpt.remote.worker import WorkerEnd
from tests.remote.worker_process import WorkerProcess
from tests.simulation.world import JOB

if TYPE_CHECKING:
    from tests.remote.cluster import Cluster


class StandbyProcess(WorkerProcess):
    """A standby worker for any subtask of the job.

    Like ``WorkerRun._stand_by``, it stands by again when its subtasks have finished or another worker took them.
    ``sees_processes``: it runs on the same machine as the other workers, and sees that a process is gone.
    """

    def __init__(self, cluster: Cluster, name: str, seed: str) -> None:
        super().__init__(cluster, name, (), seed, None)
        self.own_name, self.turns = name, 0
        self.sees_processes = Random(seed).random() < 0.5
        self._standby: Standby | None = None
        self.serves = 0
        """Epoch of the deployment that this worker stands by for; 0: still unknown."""

    def step(self) -> None:
        if self._begun or self.subtasks:
            self._work()
        elif self._standby is None:
            self._stand_by()
        else:
            self._look(self._standby)

    def _stand_by(self) -> None:
        state = self._journal.refresh()
        if not state.deployment:
            self.is_over = state.status is JobStatus.FINISHED
            return
        self.serves = self.serves or state.deployment
        self._standby = Standby(
            self.storage,
            JOB,
            self.serves,
            self.cluster.graph.subtasks,
            self._journal.refresh,
            self.cluster.timing,
            is_process_alive=self._lives,
            clock=self.cluster.clock,
        )

    def _lives(self, place: Place) -> bool | None:
        if not self.sees_processes:
            return None
        return any(
            place.host == process.shown_as for process in self.cluster.processes if isinstance(process, WorkerProcess)
        )

    def _look(self, standby: Standby) -> None:
        abandoned = standby._poll()
        if isinstance(abandoned, WorkerEnd):
            self.is_over, self.end = True, abandoned
        elif abandoned is not None:
            self.turns += 1
            self.shown_as, self.subtasks = f"{self.own_name}-{self.turns}", abandoned
            self.cluster.took_over += 1

    def _work(self) -> None:
        try:
            super().step()
        except SubtaskTakenError:
            self._stand_by_again()
        if self.is_over and self.end is WorkerEnd.DONE:
            self.is_over, self.end = False, None
            self._stand_by_again()

    def _stand_by_again(self) -> None:
        self.subtasks, self._standby, self._begun = (), None, False
        self.tasks, self.logs, self._readers = [], {}, {}
        self._journal = Journal(self.storage, JOB, clock=self.cluster.clock)
