"""The choice of the Python that Spark's workers run."""

from __future__ import annotations

import os
import sys

import pytest

from airflow_provider_ckpt.spark.app.session import DRIVER, WORKERS, build_session, worker_python
from airflow_provider_ckpt.spark.errors import UnfitSettingError


def test_without_a_setting_no_python_is_chosen() -> None:
    assert worker_python({}, is_local=True, is_submitted=False) is None


@pytest.mark.parametrize("python", [sys.executable, "sh"])
def test_a_setting_for_the_workers_is_used(python: str) -> None:
    assert worker_python({WORKERS: python}, is_local=True, is_submitted=False) == python


def test_a_missing_python_is_refused_only_for_a_local_master() -> None:
    given = {WORKERS: "/opt/missing/bin/python"}
    with pytest.raises(UnfitSettingError, match="'/opt/missing/bin/python' names no program on this host"):
        worker_python(given, is_local=True, is_submitted=False)
    assert worker_python(given, is_local=False, is_submitted=False) == "/opt/missing/bin/python"


def test_another_driver_python_is_refused_without_spark_submit() -> None:
    given = {DRIVER: "/opt/other/bin/python"}
    with pytest.raises(UnfitSettingError, match=f"this process is the driver, and runs {sys.executable}"):
        worker_python(given, is_local=True, is_submitted=False)
    assert worker_python(given, is_local=True, is_submitted=True) is None
    assert worker_python({DRIVER: sys.executable}, is_local=True, is_submitted=False) is None


@pytest.mark.parametrize("key", [WORKERS, DRIVER])
def test_a_refused_python_starts_no_spark(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(
        "airflow_provider_ckpt.spark.app.session._started", lambda builder: pytest.fail("Spark started")
    )
    before = dict(os.environ)
    with pytest.raises(UnfitSettingError, match=key):
        build_session("x", {key: "/opt/missing/bin/python"})
    assert dict(os.environ) == before
