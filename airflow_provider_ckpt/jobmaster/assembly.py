"""Construction of the JobMaster of one epoch from its parts, for any kind of task gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.jobmaster.gateway import Inbox, TaskGateway
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity, Upgrades
from airflow_provider_ckpt.jobmaster.job_master import JobMaster
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.releaser import Releaser
from airflow_provider_ckpt.jobmaster.retention.retention import Retention
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.subtasklog.log_reader import LogReader


def job_master(
    identity: JobIdentity,
    journal: OwnedJournal,
    gateway: TaskGateway,
    status: StatusReporter,
    inbox: Inbox,
    *,
    logs: Mapping[SubtaskId, LogReader],
    attempts: Mapping[SubtaskId, AttemptId],
    restored: RestoredState,
    sinks: Mapping[str, BoundSink],
    policies: ReleasePolicies | None = None,
    slots: int = 1,
    controllers: Sequence[Controller] = (),
    turns: AbstractContextManager[object] | None = None,
    upgrades: Upgrades | None = None,
) -> JobMaster:
    """Return the JobMaster of a job that this process has taken over, and whose plan is in the journal.

    Args:
        logs: Subtask → its open log. A rescale adds the logs of new subtasks later.
        attempts: Unfinished subtask → its first attempt in this epoch.
    """
    definition, policies = journal.state.definition, policies or ReleasePolicies()
    assert definition is not None
    coordinator = Coordinator(
        journal.graph(),
        CheckpointOptions.of(identity.options, definition.mode),
        epoch=identity.epoch,
        restored=restored,
        attempts=attempts,
        slots=slots,
        has_workers=bool(identity.deployment),
        controllers=controllers,
    )
    releaser = Releaser(
        journal.graph,
        logs,
        sinks,
        policies,
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
        logs,
        retained=identity.options.retained_checkpoints,
        final_only=policies.final_only,
        snapshot_min_pause=identity.options.snapshot_min_pause if definition.mode == "batch" else None,
    )
    return JobMaster(
        identity,
        coordinator,
        journal=journal,
        gateway=gateway,
        releaser=releaser,
        retention=retention,
        status=status,
        inbox=inbox,
        turns=turns,
        upgrades=upgrades,
    )
