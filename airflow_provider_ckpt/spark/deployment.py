"""One epoch of a claimed job in this process, with its JobMaster and its tasks."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from airflow_provider_ckpt.coordinator.protocol.reports import FilesChanged
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.jobmaster.assembly import job_master
from airflow_provider_ckpt.jobmaster.gateway import Inbox
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity, Upgraded
from airflow_provider_ckpt.jobmaster.job_master import JobMaster, Outcome
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import new_nonce
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.restore import RestorePoint
from airflow_provider_ckpt.jobmaster.recovery.restored_state import first_plan, restored
from airflow_provider_ckpt.jobmaster.recovery.split_progress import restored_splits
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.retention.collector import collect_garbage
from airflow_provider_ckpt.journal.events import DeploymentPrepared
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun
from airflow_provider_ckpt.spark.preparation.spark_gateway import SparkGateway
from airflow_provider_ckpt.spark.preparation.task_factory import Runner, SparkTaskFactory, make_context
from airflow_provider_ckpt.spark.preparation.version_trials import VersionTrials
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.restarts import Restarts

BATCH_SLOTS = 1
"""Maximum number of vertices of a BATCH job that run at the same time. Each uses all cores of the driver."""


@dataclass(frozen=True)
class ClaimedRun:
    """A prepared run whose job this driver has claimed.

    Attributes:
        logs: subtask -> the open log of its current attempt. Opening the log has fenced all earlier attempts.
        attempts: subtask -> its first attempt in this epoch. Finished subtasks are left out.
        frozen: source -> its frozen end. Finished sources are left out.
        splits: source -> its frozen splits. Finished sources are left out.
        restore: the checkpoint to restore; None if the job resumes after its published batches.
        upgraded: the upgrade, if this driver ran another version of the job before this run; None otherwise.
    """

    prepared: PreparedRun
    journal: OwnedJournal
    claim: takeover.TakenOver
    logs: dict[SubtaskId, SubtaskLog]
    attempts: Mapping[SubtaskId, AttemptId]
    frozen: Mapping[str, FrozenEnd]
    splits: Mapping[str, Sequence[Split]]
    restore: RestorePoint | None
    upgraded: Upgraded | None = None


class Deployment:
    """The JobMaster and tasks of one epoch in this process. Use it once, and call its methods in their order below."""

    def __init__(self, claimed: ClaimedRun, status: StatusReporter) -> None:
        self._claimed, self._status = claimed, status
        self._prepared, self._plan, self._options = claimed.prepared, claimed.prepared.plan, claimed.prepared.options
        self._inbox = Inbox()
        self._batch_thread = ThreadPoolExecutor(BATCH_SLOTS, thread_name_prefix="ckpt-batch")
        self._context = self._make_context()
        self._factory = self._make_factory()
        frozen, logs = claimed.frozen, claimed.logs
        self._versions = VersionTrials(claimed.prepared, self._context, self._factory.current, frozen, logs)
        self._runners: dict[SubtaskId, Runner] = {}

    def make_tasks(self) -> None:
        """Make a task for each unfinished subtask, with a copy of the Spark folder of the subtask's previous attempt.

        Also publish batches that Spark has committed and no attempt has published (R1).
        """
        claimed, settings = self._claimed, self._settings()
        for subtask in self._plan.graph.subtasks:
            if not claimed.logs[subtask].state.closed:
                plan = replace(first_plan(claimed.journal.state, subtask), settings=settings.get(subtask.vertex))
                restores = claimed.restore is not None
                self._runners[subtask] = self._factory.make(subtask, claimed.attempts[subtask], plan, restores=restores)

    def collect_garbage(self) -> None:
        """Delete staged output of earlier attempts that no log entry names."""
        claimed, job_id = self._claimed, self._options.job_id
        fence, epoch = claimed.journal.check_fenced, claimed.claim.epoch
        storage, sinks = self._prepared.run.storage, self._prepared.sinks
        collect_garbage(storage, job_id, self._plan.graph, claimed.logs, sinks, epoch, fence)

    def hand_over(self) -> None:
        """Close the tasks, and journal that workers may run their subtasks, each in its next attempt (W9, W19)."""
        for runner in self._runners.values():
            runner.stop()
            runner.close()
        self._batch_thread.shutdown(wait=False, cancel_futures=True)
        self._claimed.journal.write(DeploymentPrepared(self._claimed.claim.epoch, time.time()))

    def run(self) -> Outcome:
        """Run the job to its end and return its outcome. Raises what :meth:`JobMaster.run` raises."""
        try:
            return self._job_master().run()
        finally:
            self._batch_thread.shutdown(wait=False, cancel_futures=True)

    def version(self, request: str) -> PreparedRun:
        """Return the prepared version to which ``request`` upgrades. This request must have ended :meth:`run`."""
        return self._versions.prepared_version(request)

    def late_files(self) -> set[str]:
        """Return normal paths of the files that bounded sources have read, but that their frozen lists do not name."""
        return self._factory.late_files()

    def changed_files(self) -> list[FilesChanged]:
        """Return the files that have changed after the tasks read them. Call this after :meth:`run`."""
        return self._factory.changed_files()

    def _job_master(self) -> JobMaster:
        claimed, job = self._claimed, self._prepared.job
        storage, epoch, options = self._prepared.run.storage, claimed.claim.epoch, self._options
        restarts = Restarts(self._factory, self._context.post, new_nonce)
        return job_master(
            JobIdentity(storage, options.job_id, epoch, options, upgraded=claimed.upgraded),
            claimed.journal,
            SparkGateway(self._context, self._runners, restarts),
            self._status,
            self._inbox,
            logs=claimed.logs,
            attempts=claimed.attempts,
            restored=self._restored(),
            sinks=self._prepared.sinks,
            policies=ReleasePolicies.of(job.sinks),
            slots=BATCH_SLOTS,
            controllers=job.controllers,
            upgrades=self._versions,
        )

    def _make_context(self) -> RunContext:
        journal, epoch = self._claimed.journal, self._claimed.claim.epoch
        context = make_context(self._prepared, journal.state, epoch, self._inbox.put, journal.check_fenced)
        return replace(context, in_master_process=True)

    def _make_factory(self) -> SparkTaskFactory:
        claimed, logs = self._claimed, self._claimed.logs
        return SparkTaskFactory(
            self._context,
            self._prepared,
            claimed.journal.state,
            claimed.frozen,
            claimed.splits,
            logs,
            functools.partial(CurrentLog, logs),
            self._batch_thread,
        )

    def _restored(self) -> RestoredState:
        claimed, graph = self._claimed, self._plan.graph
        state = claimed.journal.state
        splits = restored_splits(state, graph, claimed.logs, claimed.splits, self._plan.splits.readers)
        return replace(restored(state, splits), settings=self._settings())

    def _settings(self) -> dict[str, VertexSettings]:
        """Return the journaled settings, with the digests of the code that this run uses for assigned functions.

        The JobMaster compares a new assignment with these digests, because the functions' files may have changed.
        """
        return self._claimed.prepared.logic.with_read_digests(self._claimed.journal.state.settings)
