from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from tests.sinks.file_target import FileTarget

pytestmark = pytest.mark.spark


class TestParquet(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return FileTarget(tmp_path / "lake")


@pytest.mark.slow
class TestOverwritingParquet(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return FileTarget(tmp_path / "lake", mode="overwrite")


@pytest.mark.slow
class TestPartitionOfTable(SinkConformance):
    """A folder named ``column=value`` belongs to the table above it, so its files are staged next to that table."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        return FileTarget(tmp_path / "lake" / "day=2026-01-02" / "zone=a b=c")


@pytest.mark.slow
class TestPartitionedCsv(SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        path = tmp_path / "a lake 100% ä&ö #1"
        return FileTarget(path, format="csv", partition_by=["city"], options={"header": True})
