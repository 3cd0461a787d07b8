"""Idle deployment: requests of its processes to the storage per hour."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from airflow_provider_ckpt.jobmaster.job_master import JobMaster
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.timing import Timing
from tests.costs.meter import Cost, Meter
from tests.remote.cluster import Cluster
from tests.remote.master_process import MasterProcess
from tests.remote.process import SimulatedProcess
from tests.remote.worker_process import WorkerProcess
from tests.simulation.runner import Runner

_NUMBERS = itertools.count()
LOOKS = 320
SETTLED = 64
"""Polls until all earlier events have been reported."""
LATE = 1e-6
"""Seconds by which a poll is late, as in a real loop. Without it, rounding would skip actions due each second."""


class Idle(Cluster):
    """Idle cluster without checkpoints: ``sources`` subtasks without inputs, and one subtask that reads all of them.

    ``groups``: source numbers of each worker. The reading subtask has its own worker.
    """

    checkpoint_interval = 1e9

    def __init__(self, sources: int, groups: Sequence[Sequence[int]], timing: Timing) -> None:
        live = JobVertex("live", ("live",), ("live",), ("live",), (), bounded=False, parallelism=sources)
        reader = JobVertex("reader", ("reader",), (), (), ("out",), bounded=False)
        graph = JobGraph((live, reader), (JobEdge("live__reader", "live", "reader", "reader", "all_to_all"),))
        tasks = [tuple(SubtaskId(f"live/{number}") for number in group) for group in groups]
        name = f"idle-{os.getpid()}-{next(_NUMBERS)}"
        super().__init__(graph, {}, "streaming", [*tasks, (SubtaskId("reader/0"),)], name=name, seed=0)
        self.timing = timing
        self.before_step = self._works
        self.meter = self.world.live = Meter(self.world.live)  # type: ignore[assignment]

    def at_verb(self, process: SimulatedProcess, when: str, verb: str, path: str) -> None:
        """Do nothing: no other process runs meanwhile, and no fault is injected."""

    def _works(self, runner: Runner) -> bool:
        """Start the query, but read nothing."""
        return bool(runner.work)

    def costs(self) -> dict[str, Cost]:
        """Return the cost per hour by process: ``master``, and each worker under its first subtask."""
        self.run(lambda: self._watched.refresh().status is JobStatus.RUNNING)
        self.supervises = False
        self._pass(SETTLED)
        spent = self._pass(LOOKS)
        hours = LOOKS * self.timing.poll / 3600
        return {name: cost * (1 / hours) for name, cost in spent.items()}

    def _pass(self, looks: int) -> dict[str, Cost]:
        start, spent = self.clock.now, {_name(process): Cost(0, 0) for process in self.processes}
        for number in range(1, looks + 1):
            self.clock.now = self.world.now = start + number * (self.timing.poll + LATE)
            for process in self.processes:
                self.meter.taken()
                _look(process)
                spent[_name(process)] += self.meter.taken()
        return spent


def _name(process: SimulatedProcess) -> str:
    return str(process.subtasks[0]) if isinstance(process, WorkerProcess) else "master"


def _look(process: SimulatedProcess) -> None:
    if isinstance(process, WorkerProcess):
        process._turn()
        return
    assert isinstance(process, MasterProcess)
    assert isinstance(process.job, JobMaster)
    process.job._gateway.poll()  # type: ignore[attr-defined]
    process._turn(process.job)
