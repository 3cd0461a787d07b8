"""A driver in client mode gets the worker's class archive. A task that only submits does not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_ckpt.hooks.spark_submit import CheckpointedSparkSubmitHook
from airflow_provider_ckpt.jvm.class_archive import ClassArchive, make
from tests.jvm.conftest import archive, environ

__all__ = ["archive", "environ"]
pytestmark = pytest.mark.airflow


def environment(mode: str = "client", **given: Any) -> dict[str, str]:
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(
        {"conn_type": "spark", "host": "spark://h:1", "extra": {"deploy-mode": mode}}
    )
    base = SparkSubmitHook(conn_id="spark_default", **given)
    hook = CheckpointedSparkSubmitHook(base, name="orders", application_args=[], on_status=lambda line: None)
    hook._build_spark_submit_command("main.py")
    return hook._env or {}


@pytest.fixture(autouse=True)
def made(archive: ClassArchive, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "")  # restored after the test
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return make(archive)


def test_a_client_mode_driver_uses_the_class_archive(made: Path) -> None:
    shared = f'-Xlog:cds*=off -XX:+VerifySharedSpaces "-XX:SharedArchiveFile={made}"'
    assert environment()["SPARK_SUBMIT_OPTS"] == shared
    assert environment(env_vars={"A": "b", "SPARK_SUBMIT_OPTS": "-Da=b"})["SPARK_SUBMIT_OPTS"] == f"{shared} -Da=b"


def test_a_cluster_mode_driver_uses_no_class_archive() -> None:
    assert environment("cluster") == {}


@pytest.mark.parametrize(
    "given",
    [
        {"conf": {"spark.driver.extraJavaOptions": "-Xshare:off"}},
        {"env_vars": {"CKPT_CLASS_ARCHIVE": "off"}},
    ],
    ids=["settings", "environment"],
)
def test_the_users_own_settings_disable_the_class_archive(given: dict[str, Any]) -> None:
    assert "SPARK_SUBMIT_OPTS" not in environment(**given)
