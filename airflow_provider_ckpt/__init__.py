"""Flink's checkpoint semantics for mixed bounded and unbounded PySpark jobs, run from Airflow or without it.

Names are imported when they are used: this package alone imports neither Airflow, Spark nor fsspec.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.errors import CkptError, InvalidInputError, TerminalError, TransientError
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
    from airflow_provider_ckpt.sensors.checkpoint import CheckpointSensor
    from airflow_provider_ckpt.sinks.file_sink import FileSink

__version__ = "0.1.0"

__all__ = [
    "CheckpointHook",
    "CheckpointSensor",
    "CheckpointedSparkJobOperator",
    "CkptError",
    "FileSink",
    "InvalidInputError",
    "Job",
    "TerminalError",
    "TransientError",
    "__version__",
]

_MODULES = {
    "CheckpointHook": "hooks.checkpoint",
    "CheckpointSensor": "sensors.checkpoint",
    "CheckpointedSparkJobOperator": "operators.spark_job",
    "CkptError": "errors",
    "FileSink": "sinks.file_sink",
    "InvalidInputError": "errors",
    "Job": "job.job",
    "TerminalError": "errors",
    "TransientError": "errors",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
