"""Spark with Delta's own jar reads, merges, compacts, vacuums and restores a table between its releases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

pytestmark = [pytest.mark.tables, pytest.mark.timeout(1800)]


def test_spark_and_a_sink_share_a_delta_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lakes.delta_by_spark", str(tmp_path / "table")]
    with Process(command, tmp_path / "spark.log") as process:
        assert process.wait(1700) == 0, process.tail()
