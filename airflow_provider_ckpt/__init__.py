"""Flink's checkpoint semantics for mixed bounded and unbounded PySpark jobs, with or without Airflow.

The names exported here and by :mod:`airflow_provider_ckpt.testing` are public (docs/public.md). Every other module is
private and may change in any release. Names are imported on first use: this package alone imports neither Airflow,
Spark nor fsspec.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.errors import NoSuchJobError
    from airflow_provider_ckpt.client.garbage_collection import collect_garbage
    from airflow_provider_ckpt.client.job_answer import JobAnswer
    from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
    from airflow_provider_ckpt.connections.kafka_brokers import kafka_options
    from airflow_provider_ckpt.errors import (
        CkptError,
        DeletionRefusal,
        DeletionRefusedError,
        InvalidInputError,
        OvertakenError,
        RequestFailedError,
        RequestFailure,
        TerminalError,
        TransientError,
    )
    from airflow_provider_ckpt.gates.airflow_variable_gate import AirflowVariableGate
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.job.autoscaler import Autoscaler
    from airflow_provider_ckpt.job.chaining import build_graph
    from airflow_provider_ckpt.job.controller import Controller, JobMetrics, QueryMetrics, SplitMetrics
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
    from airflow_provider_ckpt.job.sink_operator import PendingRelease
    from airflow_provider_ckpt.jobmaster.errors import NoSuchResultError, ReleaseHeldError, ResultNotPersistedError
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.job_request import JobRequest
    from airflow_provider_ckpt.model.job_status import JobStatus
    from airflow_provider_ckpt.model.request_outcome import RequestResult
    from airflow_provider_ckpt.operators.job_cleanup import CheckpointedJobCleanupOperator
    from airflow_provider_ckpt.operators.job_group import CheckpointedSparkJobGroup
    from airflow_provider_ckpt.operators.request_operators import (
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
    "BoundSink",
    "CheckpointHook",
    "CheckpointReleaseTrigger",
    "CheckpointSensor",
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
    "DeletionRefusal",
    "DeletionRefusedError",
    "DeltaSink",
    "FileSink",
    "Handle",
    "IcebergSink",
    "InvalidInputError",
    "Job",
    "JobAnswer",
    "JobClient",
    "JobMetrics",
    "JobRequest",
    "JobState",
    "JobStatus",
    "KafkaSink",
    "Location",
    "Manifest",
    "NoRootError",
    "NoSuchJobError",
    "NoSuchResultError",
    "OvertakenError",
    "PendingRelease",
    "PostgresSink",
    "ProgressRetryPolicy",
    "QueryMetrics",
    "Reconfiguration",
    "ReleaseHeldError",
    "ReleaseParticipant",
    "RequestFailedError",
    "RequestFailure",
    "RequestResult",
    "ResultNotPersistedError",
    "Sink",
    "SinkContext",
    "SinkInput",
    "SplitMetrics",
    "SqlSink",
    "StageRequest",
    "Storage",
    "TerminalError",
    "TransientError",
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
    "Autoscaler": "job.autoscaler",
    "BoundSink": "sinks.sink",
    "CheckpointHook": "hooks.checkpoint",
    "CheckpointReleaseTrigger": "triggers.release",
    "CheckpointSensor": "sensors.checkpoint",
    "CheckpointedJobCleanupOperator": "operators.job_cleanup",
    "CheckpointedJobDrainOperator": "operators.request_operators",
    "CheckpointedJobReconfigureOperator": "operators.request_operators",
    "CheckpointedJobRescaleOperator": "operators.request_operators",
    "CheckpointedJobStopOperator": "operators.request_operators",
    "CheckpointedJobUpgradeOperator": "operators.request_operators",
    "CheckpointedSparkJobGroup": "operators.job_group",
    "CheckpointedSparkJobOperator": "operators.spark_job",
    "CkptError": "errors",
    "Controller": "job.controller",
    "DeletionRefusal": "errors",
    "DeletionRefusedError": "errors",
    "DeltaSink": "sinks.delta.delta_sink",
    "FileSink": "sinks.file.file_sink",
    "Handle": "sinks.sink",
    "IcebergSink": "sinks.iceberg.iceberg_sink",
    "InvalidInputError": "errors",
    "Job": "job.job",
    "JobAnswer": "client.job_answer",
    "JobClient": "client.job_client",
    "JobMetrics": "job.controller",
    "JobRequest": "model.job_request",
    "JobState": "journal.state",
    "JobStatus": "model.job_status",
    "KafkaSink": "sinks.kafka.kafka_sink",
    "Location": "storage.location",
    "Manifest": "sinks.file.manifests",
    "NoRootError": "storage.errors",
    "NoSuchJobError": "client.errors",
    "NoSuchResultError": "jobmaster.errors",
    "OvertakenError": "errors",
    "PendingRelease": "job.sink_operator",
    "PostgresSink": "sinks.postgres.postgres_sink",
    "ProgressRetryPolicy": "operators.retry_policy",
    "QueryMetrics": "job.controller",
    "Reconfiguration": "job.reconfiguration",
    "ReleaseHeldError": "jobmaster.errors",
    "ReleaseParticipant": "sinks.sink",
    "RequestFailedError": "errors",
    "RequestFailure": "errors",
    "RequestResult": "model.request_outcome",
    "ResultNotPersistedError": "jobmaster.errors",
    "Sink": "sinks.sink",
    "SinkContext": "sinks.sink",
    "SinkInput": "sinks.sink",
    "SplitMetrics": "job.controller",
    "SqlSink": "sinks.sql.sql_sink",
    "StageRequest": "sinks.sink",
    "Storage": "storage.storage",
    "TerminalError": "errors",
    "TransientError": "errors",
    "build_graph": "job.chaining",
    "collect_garbage": "client.garbage_collection",
    "kafka_options": "connections.kafka_brokers",
    "list_jobs": "client.job_client",
    "open_storage": "storage.opening",
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
