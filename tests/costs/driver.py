"""Idle driver (``ckpt run``): requests of its JobMaster to the storage per hour.

Its tasks run in the same process and read logs without requests (:class:`CurrentLog`), so this driver has none.
Requests by Spark are not counted, neither for sources nor for its own checkpoints.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskRunning
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.assembly import job_master
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity
from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.jobmaster.recovery.restored_state import restored
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog
from airflow_provider_ckpt.task.local_gateway import LocalGateway
from airflow_provider_ckpt.task.restarts import Restarts
from tests.costs.deployment import LATE
from tests.costs.meter import Cost, Meter
from tests.remote.cluster import FakeClock
from tests.remote.process import NoWait

JOB = "idle"
_NUMBERS = itertools.count()
_LOOP = 0.1
_SECONDS = 320
GRAPH = JobGraph((JobVertex("live", ("live",), ("live",), ("live",), (), bounded=False),), ())


class IdleDriver:
    def __init__(self) -> None:
        self.meter = Meter(MemoryStorage(f"driver/{os.getpid()}-{next(_NUMBERS)}"))
        self.clock, self.inbox = FakeClock(), NoWait()
        replayed = Journal(self.meter, JOB, clock=self.clock)
        self.epoch = takeover.claim(replayed, "try", Worker()).epoch
        self.journal = OwnedJournal(replayed)
        self.logs = load_logs(self.meter, JOB, GRAPH)
        record_plan(self.journal, JOB, GRAPH, JobDefinition("streaming", {}, {}, {}), {}, {})
        self.attempts = open_logs(self.journal, self.logs, self.epoch, "streaming", None)

    def cost(self) -> Cost:
        """Return the cost per hour without a checkpoint."""
        master: Any = self._job_master()
        try:
            master._carry_out(master._coordinator.start(self.clock()))
            for subtask, attempt in self.attempts.items():
                self.inbox.put(SubtaskRunning(self.epoch, subtask, attempt))
            self._pass(master, 10)
            assert self.journal.state.status is JobStatus.RUNNING
            self.meter.taken()
            self._pass(master, _SECONDS)
        finally:
            master._releaser.close()
            master._retention.close()
        return self.meter.taken() * (3600 / _SECONDS)

    def cost_of_a_read_of_its_own_logs(self) -> Cost:
        self.meter.taken()
        for subtask in self.logs:
            assert CurrentLog(self.logs, subtask).records()
        return self.meter.taken()

    def _pass(self, master: Any, seconds: int) -> None:
        start = self.clock.now
        for number in range(1, round(seconds / _LOOP) + 1):
            self.clock.now = start + number * (_LOOP + LATE / 10)
            master._step()

    def _job_master(self) -> Any:
        options = RunOptions(
            job="idle.py:job", root=self.meter.uri, job_id=JOB, checkpoint_interval=1e9, overview_interval=0
        )
        made: Any = job_master(
            JobIdentity(self.meter, JOB, self.epoch, options),
            self.journal,
            LocalGateway(self.epoch, {}, _unexpected, Restarts(None, self.inbox.put, str)),  # type: ignore[arg-type]
            StatusReporter(lambda line: None, JOB, None, "/r"),
            self.inbox,
            logs=self.logs,
            attempts=self.attempts,
            restored=restored(self.journal.state),
            sinks={},
        )
        made._clock = Clock(self.clock, self.clock)
        return made


def _unexpected(task: object, error: BaseException) -> None:
    raise AssertionError(task) from error
