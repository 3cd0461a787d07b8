"""Construction of the JobMaster of one epoch from its parts, for any kind of task gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.options import CheckpointOptions
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.jobmaster.gateway import Inbox, TaskGateway
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity, Upgrades
from airflow_provider_ckpt.jobmaster.job_master import JobMaster
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.releaser import Releaser
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import RuntimeMode
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.subtasklog.log_reader import LogReader


@dataclass(frozen=True)
class ClaimedJobParts:
    """A job that this process has taken over.

    Args:
        graph: Graph at the start of the run. The journal has each later graph.
        logs: Open log of each subtask. Subtasks that a rescale adds are put in later.
        attempts: First attempt of each subtask that is not finished.
        policies: Release policies of the sinks.
        slots: See :class:`Coordinator`.
        has_workers: See :class:`Coordinator`.
        controllers: See :class:`Coordinator`.
    """

    identity: JobIdentity
    graph: JobGraph
    mode: RuntimeMode
    journal: OwnedJournal
    logs: Mapping[SubtaskId, LogReader]
    attempts: Mapping[SubtaskId, AttemptId]
    restored: RestoredState
    sinks: Mapping[str, BoundSink]
    policies: ReleasePolicies = field(default_factory=ReleasePolicies)
    slots: int = 1
    has_workers: bool = False
    controllers: Sequence[Controller] = ()


def job_master(
    job: ClaimedJobParts,
    gateway: TaskGateway,
    status: StatusReporter,
    inbox: Inbox,
    turns: AbstractContextManager[object] | None = None,
    upgrades: Upgrades | None = None,
) -> JobMaster:
    """Return the JobMaster of ``job``.

    Args:
        inbox: Queue into which the tasks of the gateway report.
        turns: See :class:`JobMaster`.
        upgrades: See :class:`JobMaster`.
    """
    identity, graph, journal = job.identity, job.graph, job.journal
    coordinator = Coordinator(
        graph,
        CheckpointOptions.of(identity.options, job.mode),
        epoch=identity.epoch,
        restored=job.restored,
        attempts=job.attempts,
        slots=job.slots,
        has_workers=job.has_workers,
        controllers=job.controllers,
    )
    releaser = Releaser(
        journal.graph,
        job.logs,
        job.sinks,
        job.policies,
        job_id=identity.job_id,
        epoch=identity.epoch,
        post=inbox.put,
        check_fenced=journal.check_fenced,
    )
    retention = Retention(
        identity.storage,
        identity.job_id,
        journal.graph,
        journal,
        job.logs,
        retained=identity.options.retained_checkpoints,
        final_only=job.policies.final_only,
        snapshot_min_pause=identity.options.snapshot_min_pause if job.mode == "batch" else None,
    )
    return JobMaster(
        identity, coordinator, journal, gateway, releaser, retention, status, inbox, turns=turns, upgrades=upgrades
    )
