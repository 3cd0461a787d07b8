"""Gate that reads an Airflow Variable from a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_ckpt import AirflowVariableGate, PendingRelease
from tests.airflow_real.server import USER, Airflow

pytestmark = [pytest.mark.airflow_real, pytest.mark.timeout(900)]
PENDING = PendingRelease("orders", "lake", 12, 5)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    with Airflow(tmp_path_factory.mktemp("airflow"), {}) as running:
        yield running


def test_the_gate_is_closed_until_the_variable_is_true(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "http", "host": airflow.url, "login": USER, "password": USER}
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", json.dumps(connection))
    gate = AirflowVariableGate("approved_{job_id}", "airflow_api")
    assert gate(PENDING) is False
    airflow.post("/api/v2/variables", {"key": "approved_orders", "value": "false"})
    assert gate(PENDING) is False
    airflow.patch("/api/v2/variables/approved_orders", {"key": "approved_orders", "value": "true"})
    assert gate(PENDING) is True
