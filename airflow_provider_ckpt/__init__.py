"""Flink's checkpoint semantics for mixed bounded and unbounded PySpark jobs, with or without Airflow.

The names exported here and by :mod:`airflow_provider_ckpt.testing` are public (docs/public.md). Every other module is
private and may change in any release. Names are imported on first use: this package alone imports neither Airflow,
Spark nor fsspec.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.errors import (
        JobNotEndedError,
        JobNotRunningError,
        JobWaitTimeoutError,
        NoSuchJobError,
        NoSuchPartitionError,
        NotReconfiguredError,
        NotRescalableError,
        NotRescaledError,
        NotUpgradableError,
        NotUpgradedError,
        RequestOvertakenError,
    )
    from airflow_provider_ckpt.client.garbage_collection import GarbageReport, collect_garbage
    from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
    from airflow_provider_ckpt.client.job_request import JobAnswer, JobRequest
    from airflow_provider_ckpt.client.reconfiguration import ReconfigurationPreview
    from airflow_provider_ckpt.connections.kafka_brokers import kafka_options
    from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError, TerminalError, TransientError
    from airflow_provider_ckpt.gates.airflow_variable_gate import AirflowVariableGate
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.hooks.errors import ReconfigurationFailedError
    from airflow_provider_ckpt.job.autoscaler import Autoscaler
    from airflow_provider_ckpt.job.chaining import build_graph
    from airflow_provider_ckpt.job.controller import Controller, JobMetrics, QueryMetrics, SplitMetrics
    from airflow_provider_ckpt.job.errors import NotReconfigurableError
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
    from airflow_provider_ckpt.job.sink_operator import PendingRelease
    from airflow_provider_ckpt.jobmaster.errors import (
        JobNotOverError,
        JobStillRunsError,
        NoSuchResultError,
        NotForNextRunError,
        PersistedResultsError,
        ReleaseHeldError,
        ResultNotPersistedError,
        StagedOutputLeftError,
        UnreleasedOutputError,
    )
    from airflow_provider_ckpt.jobmaster.recovery.persisted_results import PersistedResult
    from airflow_provider_ckpt.jobmaster.retention.deletion import DeletedJob
    from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, JobGarbage
    from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics
    from airflow_provider_ckpt.journal.errors import JobDeletedError
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
    from airflow_provider_ckpt.model.job_status import JobStatus
    from airflow_provider_ckpt.model.progress import BatchProgress
    from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
    from airflow_provider_ckpt.operators.job_cleanup import CheckpointedJobCleanupOperator
    from airflow_provider_ckpt.operators.job_group import CheckpointedSparkJobGroup
    from airflow_provider_ckpt.operators.job_request import (
        CheckpointedJobDrainOperator,
        CheckpointedJobReconfigureOperator,
        CheckpointedJobRescaleOperator,
        CheckpointedJobStopOperator,
        CheckpointedJobUpgradeOperator,
    )
    from airflow_provider_ckpt.operators.retry_policy import ProgressRetryPolicy
    from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
    from airflow_provider_ckpt.sensors.checkpoint import CheckpointSensor
    from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
    from airflow_provider_ckpt.sinks.file.file_sink import FileSink
    from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests, released_files
    from airflow_provider_ckpt.sinks.iceberg.iceberg_sink import IcebergSink
    from airflow_provider_ckpt.sinks.kafka.kafka_sink import KafkaSink
    from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
    from airflow_provider_ckpt.sinks.sink import (
        BoundSink,
        Handle,
        ReleaseParticipant,
        Sink,
        SinkContext,
        SinkInput,
        StageRequest,
    )
    from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink
    from airflow_provider_ckpt.spark.query.sources.persisted import read_persisted
    from airflow_provider_ckpt.storage.errors import NoRootError
    from airflow_provider_ckpt.storage.location import Location
    from airflow_provider_ckpt.storage.opening import open_storage
    from airflow_provider_ckpt.storage.storage import Storage
    from airflow_provider_ckpt.triggers.release import CheckpointReleaseTrigger

__version__ = "0.1.0"

__all__ = [
    "AirflowVariableGate",
    "Autoscaler",
    "BatchProgress",
    "BoundSink",
    "CheckpointHook",
    "CheckpointReleaseTrigger",
    "CheckpointSensor",
    "CheckpointView",
    "CheckpointedJobCleanupOperator",
    "CheckpointedJobDrainOperator",
    "CheckpointedJobReconfigureOperator",
    "CheckpointedJobRescaleOperator",
    "CheckpointedJobStopOperator",
    "CheckpointedJobUpgradeOperator",
    "CheckpointedSparkJobGroup",
    "CheckpointedSparkJobOperator",
    "CkptError",
    "Controller",
    "DeletedJob",
    "DeltaSink",
    "FileSink",
    "Garbage",
    "GarbageReport",
    "Handle",
    "IcebergSink",
    "InvalidInputError",
    "Job",
    "JobAnswer",
    "JobClient",
    "JobDeletedError",
    "JobGarbage",
    "JobMetrics",
    "JobNotEndedError",
    "JobNotOverError",
    "JobNotRunningError",
    "JobRequest",
    "JobState",
    "JobStatus",
    "JobStillRunsError",
    "JobWaitTimeoutError",
    "KafkaSink",
    "Location",
    "Manifest",
    "NoRootError",
    "NoSuchJobError",
    "NoSuchPartitionError",
    "NoSuchResultError",
    "NotForNextRunError",
    "NotReconfigurableError",
    "NotReconfiguredError",
    "NotRescalableError",
    "NotRescaledError",
    "NotUpgradableError",
    "NotUpgradedError",
    "OvertakenError",
    "PartitionWithMetrics",
    "PendingRelease",
    "PersistedResult",
    "PersistedResultsError",
    "PostgresSink",
    "ProgressRetryPolicy",
    "QueryMetrics",
    "Reconfiguration",
    "ReconfigurationFailedError",
    "ReconfigurationPreview",
    "ReleaseHeldError",
    "ReleaseParticipant",
    "RequestOutcome",
    "RequestOvertakenError",
    "RequestResult",
    "ResultNotPersistedError",
    "Sink",
    "SinkContext",
    "SinkInput",
    "SplitMetrics",
    "SqlSink",
    "StageRequest",
    "StagedOutputLeftError",
    "Storage",
    "TerminalError",
    "TransientError",
    "UnreleasedOutputError",
    "__version__",
    "build_graph",
    "collect_garbage",
    "kafka_options",
    "list_jobs",
    "open_storage",
    "read_manifests",
    "read_persisted",
    "released_files",
]

_MODULES = {
    "AirflowVariableGate": "gates.airflow_variable_gate",
    "BatchProgress": "model.progress",
    "BoundSink": "sinks.sink",
    "CheckpointHook": "hooks.checkpoint",
    "CheckpointReleaseTrigger": "triggers.release",
    "CheckpointSensor": "sensors.checkpoint",
    "CheckpointView": "model.checkpoint_view",
    "CheckpointedJobCleanupOperator": "operators.job_cleanup",
    "CheckpointedJobDrainOperator": "operators.job_request",
    "CheckpointedJobReconfigureOperator": "operators.job_request",
    "CheckpointedJobUpgradeOperator": "operators.job_request",
    "CheckpointedJobRescaleOperator": "operators.job_request",
    "CheckpointedJobStopOperator": "operators.job_request",
    "CheckpointedSparkJobGroup": "operators.job_group",
    "CheckpointedSparkJobOperator": "operators.spark_job",
    "CkptError": "errors",
    "Controller": "job.controller",
    "DeletedJob": "jobmaster.retention.deletion",
    "DeltaSink": "sinks.delta.delta_sink",
    "FileSink": "sinks.file.file_sink",
    "Garbage": "jobmaster.retention.garbage",
    "GarbageReport": "client.garbage_collection",
    "Handle": "sinks.sink",
    "IcebergSink": "sinks.iceberg.iceberg_sink",
    "InvalidInputError": "errors",
    "Job": "job.job",
    "JobAnswer": "client.job_request",
    "JobClient": "client.job_client",
    "JobDeletedError": "journal.errors",
    "JobGarbage": "jobmaster.retention.garbage",
    "JobMetrics": "job.controller",
    "JobNotEndedError": "client.errors",
    "JobNotOverError": "jobmaster.errors",
    "JobNotRunningError": "client.errors",
    "JobRequest": "client.job_request",
    "JobState": "journal.state",
    "JobStatus": "model.job_status",
    "JobStillRunsError": "jobmaster.errors",
    "JobWaitTimeoutError": "client.errors",
    "KafkaSink": "sinks.kafka.kafka_sink",
    "Autoscaler": "job.autoscaler",
    "Location": "storage.location",
    "Manifest": "sinks.file.manifests",
    "NoRootError": "storage.errors",
    "NoSuchJobError": "client.errors",
    "NoSuchPartitionError": "client.errors",
    "NoSuchResultError": "jobmaster.errors",
    "NotForNextRunError": "jobmaster.errors",
    "NotReconfigurableError": "job.errors",
    "NotReconfiguredError": "client.errors",
    "NotUpgradableError": "client.errors",
    "NotUpgradedError": "client.errors",
    "NotRescalableError": "client.errors",
    "NotRescaledError": "client.errors",
    "OvertakenError": "errors",
    "PartitionWithMetrics": "jobmaster.retention.partition_metrics",
    "PendingRelease": "job.sink_operator",
    "PersistedResult": "jobmaster.recovery.persisted_results",
    "PersistedResultsError": "jobmaster.errors",
    "PostgresSink": "sinks.postgres.postgres_sink",
    "ProgressRetryPolicy": "operators.retry_policy",
    "QueryMetrics": "job.controller",
    "Reconfiguration": "job.reconfiguration",
    "ReconfigurationFailedError": "hooks.errors",
    "ReconfigurationPreview": "client.reconfiguration",
    "ReleaseHeldError": "jobmaster.errors",
    "RequestOutcome": "model.request_outcome",
    "RequestOvertakenError": "client.errors",
    "RequestResult": "model.request_outcome",
    "ResultNotPersistedError": "jobmaster.errors",
    "ReleaseParticipant": "sinks.sink",
    "Sink": "sinks.sink",
    "SinkContext": "sinks.sink",
    "SinkInput": "sinks.sink",
    "SplitMetrics": "job.controller",
    "SqlSink": "sinks.sql.sql_sink",
    "StageRequest": "sinks.sink",
    "StagedOutputLeftError": "jobmaster.errors",
    "Storage": "storage.storage",
    "TerminalError": "errors",
    "TransientError": "errors",
    "UnreleasedOutputError": "jobmaster.errors",
    "build_graph": "job.chaining",
    "collect_garbage": "client.garbage_collection",
    "list_jobs": "client.job_client",
    "open_storage": "storage.opening",
    "kafka_options": "connections.kafka_brokers",
    "read_manifests": "sinks.file.manifests",
    "read_persisted": "spark.query.sources.persisted",
    "released_files": "sinks.file.manifests",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
