from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from tests.client.running_job import DEFINITION, GRAPH, write_running_job


@pytest.fixture
def driver(tmp_path: Path) -> Journal:
    """Return the journal of the running job "orders"."""
    return write_running_job(tmp_path, ev.PlanRecorded(GRAPH, {}, 1.0, DEFINITION))
