"""All kinds of events of a job's journal, which records in order everything that happened to the job.

Each kind is defined in ``journal.kinds``, together with its effect on the state. Times are epoch seconds (UTC).
"""

from __future__ import annotations

from airflow_provider_ckpt.journal.kinds.checkpoints import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    SinkReleased,
)
from airflow_provider_ckpt.journal.kinds.deletion import DeletionBegun, JobDeleted
from airflow_provider_ckpt.journal.kinds.epochs import (
    DeploymentPrepared,
    EpochClaimed,
    PlanRecorded,
    Restored,
    SubtasksAdded,
)
from airflow_provider_ckpt.journal.kinds.job import JobCreated, StatusChanged
from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled
from airflow_provider_ckpt.journal.kinds.reconfiguration import GraphChange, ReconfigurationEnded, Reconfigured
from airflow_provider_ckpt.journal.kinds.requests import RequestAnswered
from airflow_provider_ckpt.journal.kinds.sources import (
    FilesForgotten,
    LateFilesFound,
    SourceDropped,
    SourceEnded,
    SourceFilesChanged,
    SourceFrozen,
)
from airflow_provider_ckpt.journal.kinds.splits import SplitsAssigned, SplitsCovered, SplitsDone
from airflow_provider_ckpt.journal.kinds.subtasks import SubtaskEndOfData, SubtaskFinished, SubtaskRestarting
from airflow_provider_ckpt.journal.state_json import StateSnapshot

__all__ = [
    "CheckpointAborted",
    "CheckpointCompleted",
    "CheckpointReleased",
    "CheckpointTriggered",
    "DeletionBegun",
    "DeploymentPrepared",
    "EpochClaimed",
    "Event",
    "FilesForgotten",
    "GraphChange",
    "JobCreated",
    "JobDeleted",
    "JobReconciled",
    "LateFilesFound",
    "PlanRecorded",
    "ReconfigurationEnded",
    "Reconfigured",
    "RequestAnswered",
    "Restored",
    "SinkReleased",
    "SourceDropped",
    "SourceEnded",
    "SourceFilesChanged",
    "SourceFrozen",
    "SplitsAssigned",
    "SplitsCovered",
    "SplitsDone",
    "StateSnapshot",
    "StatusChanged",
    "SubtaskEndOfData",
    "SubtaskFinished",
    "SubtaskRestarting",
    "SubtasksAdded",
]

Event = (
    JobCreated
    | EpochClaimed
    | PlanRecorded
    | DeploymentPrepared
    | SubtasksAdded
    | Reconfigured
    | ReconfigurationEnded
    | SourceFrozen
    | StatusChanged
    | CheckpointTriggered
    | CheckpointCompleted
    | CheckpointAborted
    | CheckpointReleased
    | SinkReleased
    | SourceEnded
    | SourceDropped
    | LateFilesFound
    | SourceFilesChanged
    | FilesForgotten
    | SplitsAssigned
    | SplitsDone
    | SplitsCovered
    | Restored
    | JobReconciled
    | SubtaskEndOfData
    | SubtaskFinished
    | SubtaskRestarting
    | RequestAnswered
    | DeletionBegun
    | JobDeleted
    | StateSnapshot
)
