"""The planner and the real JobMaster as simulated processes that advance step by step."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.definition_parts import sink_definitions
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.job_master import JobMaster, Outcome
from airflow_provider_ckpt.jobmaster.post_run import tidy_up
from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import freeze_splits
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs, void_removed_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import load_logs
from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted
from airflow_provider_ckpt.jobmaster.retention.collector import collect_garbage
from airflow_provider_ckpt.journal.events import DeploymentPrepared, SourceFrozen
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.worker import Worker as Place
from airflow_provider_ckpt.remote.master import Master, RemoteJob
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.location import Location
from tests.remote.process import LaterThread, NoWait, SimulatedProcess
from tests.simulation.world import JOB

if TYPE_CHECKING:
    pass


class Planner(SimulatedProcess):
    """A process that does the work of ``ckpt plan`` without Spark, in one step. It may die at any verb."""

    def step(self) -> None:
        cluster, storage = self.cluster, self.storage
        replayed = Journal(storage, JOB, clock=cluster.clock)
        replayed.refresh()
        epoch = takeover.claim(replayed, self.name, Place(self.name)).epoch
        journal = OwnedJournal(replayed)
        tidy_up(storage, JOB, epoch)
        state, splits = journal.state, cluster.world.splits
        graph = cluster.graph if state.plan is None else state.graph()
        declared = {uid: cluster.graph.vertex(uid).parallelism for uid in splits}
        sources = {uid: SourceDefinition(True, parallelism=number) for uid, number in declared.items()}
        wanted = {uid: readers_wanted(state, uid, number) for uid, number in declared.items()}
        rescaled = {uid: number for uid, number in wanted.items() if number != declared[uid]}
        definition = JobDefinition(cluster.mode, sources, {}, sink_definitions(cluster.operators))
        logs = load_logs(storage, JOB, graph)
        record_plan(journal, JOB, graph, definition, {}, {}, rescaled)
        for uid, named in splits.items():
            if uid not in journal.state.frozen:
                path = f"frozen/{uid}.json"
                frozen = freeze_splits(storage, f"{JOB}/{path}", uid, [Split(name, name) for name in named])
                journal.write(SourceFrozen(uid, path, len(frozen), time.time()))
        open_logs(journal, logs, epoch, cluster.mode, None)
        void_removed_logs(journal, storage, epoch)
        if all(log.state.opened for log in logs.values()):
            collect_garbage(storage, JOB, graph, logs, cluster.sinks, epoch, journal.check_fenced)
        journal.write(DeploymentPrepared(epoch, time.time()))
        self.is_over = True


class MasterProcess(SimulatedProcess):
    outcome: Outcome | None = None
    job: JobMaster | None = None

    def step(self) -> None:
        if self.job is None:
            self.job = self._take_over()
            self.job._carry_out(self.job._coordinator.start(self.cluster.clock()))
            return
        thread = self.cluster.random.choice(self.threads)
        chance = self.cluster.random.random()
        if thread.work and chance < 0.4:
            thread.work.popleft()()
        elif chance < 0.6:
            self.job._gateway.poll()  # type: ignore[attr-defined]
        else:
            self._turn(self.job)

    def _take_over(self) -> JobMaster:
        cluster = self.cluster
        options = RunOptions(
            job="synthetic.py:job",
            root=self.storage.uri,
            job_id=JOB,
            checkpoint_interval=cluster.checkpoint_interval,
            checkpoint_timeout=cluster.patience,
            tolerable_failed_checkpoints=1000,
            restart_attempts=cluster.restart_attempts,
            restart_delay=0.0,
            retained_checkpoints=1,
            attempt=self.name,
            overview_interval=0,  # its thread is not part of the simulated schedule
        )
        remote = RemoteJob(
            SimpleNamespace(sinks=cluster.operators, controllers=cluster.controllers),
            options,
            Location(self.storage.uri),
            cluster.timing,
        )
        journal = Journal(self.storage, JOB, flush_interval=0.5, clock=cluster.clock)
        with mock.patch("airflow_provider_ckpt.remote.master.bind_sinks", return_value=cluster.sinks):
            self.master = Master(remote, self.storage, journal, StatusReporter(lambda line: None, JOB, None, "/r"))
            self.owned = self.master.take_over()
        return self._simulated(self.master.make(self.owned))

    def _simulated(self, job: Any) -> JobMaster:
        """Replace the JobMaster's threads by steps and its clocks by the simulation's clock."""
        clock = self.cluster.clock
        inbox = NoWait()
        job._inbox, job._gateway._post, job._releaser._post = inbox, inbox.put, inbox.put
        job._clock = Clock(clock, clock)
        job._gateway._clock = job._gateway._mailbox._clock = clock
        self.threads = [LaterThread(), LaterThread()]
        for owner, thread in zip((job._releaser, job._retention), self.threads, strict=True):
            owner._thread.shutdown()
            owner._thread = thread
        master: JobMaster = job
        return master

    def _turn(self, job: JobMaster) -> None:
        """Do one turn of :meth:`JobMaster.run`."""
        try:
            job._step()
        except CkptError:
            self._close(job)
            raise
        if job._outcome is not None:
            self.outcome = job._outcome
            self._close(job)
            self.master._finish_run(self.owned, self.outcome)
            self.is_over = True

    @staticmethod
    def _close(job: JobMaster) -> None:
        job._gateway.stop(after_batch=False)
        job._releaser.close()
        job._retention.close()
