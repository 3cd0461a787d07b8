"""Test suites for authors of sinks and storages. This package's own sinks and storages pass them.

The suites need pytest. The suite of sinks also needs PySpark and a fixture ``spark`` that is a SparkSession. A test
class inherits a suite and defines its fixtures::

    class TestMySink(SinkConformance):
        @pytest.fixture
        def target(self, tmp_path):
            return MyTarget(tmp_path)  # a SinkTarget

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow_provider_ckpt.testing.crash import (
        CrashingStorage,
        LossyStorage,
        SimulatedCrash,
        WrappedStorage,
        crash_points,
    )
    from airflow_provider_ckpt.testing.group_conformance import SinkGroup
    from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
    from airflow_provider_ckpt.testing.sink_target import SinkTarget
    from airflow_provider_ckpt.testing.staging import stage
    from airflow_provider_ckpt.testing.storage_conformance import StorageConformance

__all__ = [
    "CrashingStorage",
    "LossyStorage",
    "SimulatedCrash",
    "SinkConformance",
    "SinkGroup",
    "SinkTarget",
    "StorageConformance",
    "WrappedStorage",
    "crash_points",
    "stage",
]

_MODULES = {
    "CrashingStorage": "crash",
    "LossyStorage": "crash",
    "SimulatedCrash": "crash",
    "SinkConformance": "sink_conformance",
    "SinkGroup": "group_conformance",
    "SinkTarget": "sink_target",
    "StorageConformance": "storage_conformance",
    "WrappedStorage": "crash",
    "crash_points": "crash",
    "stage": "staging",
}

# Called before the suites are imported, so that their failures show values like those of a test file.
_SUITES = ("batch_conformance", "group_conformance", "sink_conformance", "storage_conformance", "successor_conformance")
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
