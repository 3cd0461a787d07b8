"""The function that is sent to executors runs without this package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from airflow_provider_ckpt.sinks.postgres import copying
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.postgres.staging import known_rows
from airflow_provider_ckpt.sinks.sink import SinkContext

_EXECUTOR = """
import pickle, sys
import importlib.abc

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
function = pickle.load(open(sys.argv[1], "rb"))
import pyarrow
batch = pyarrow.RecordBatch.from_pydict({{"tags": [["a", None]]}})
{act}
"""


def on_an_executor(tmp_path: Path, absent: set[str], act: str) -> subprocess.CompletedProcess[str]:
    cloudpickle.register_pickle_by_value(copying)  # type: ignore[no-untyped-call]  # as the driver does
    settings: Any = {"arrow_types": ["list"], "sample": known_rows(), "numbers_rows": False}
    function = copying.copier({"host": "256.0.0.1"}, ["SELECT 1", "COPY"], 60, **settings)
    (tmp_path / "function").write_bytes(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
    code = _EXECUTOR.format(absent=absent, act=act)
    command = [sys.executable, "-c", code, str(tmp_path / "function")]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_executor_function_runs_without_this_package(tmp_path: Path) -> None:
    ran = on_an_executor(
        tmp_path, {"airflow_provider_ckpt"}, "print(function(7, iter([]))); print(function(8, [batch]))"
    )
    assert ran.returncode == 0, ran.stderr
    assert "{'task_attempt': 7, 'rows': 0}" in ran.stdout
    assert "'task_attempt': 8, 'rows': 0, 'error': {'sqlstate': None, 'error': 'OperationalError'" in ran.stdout


def test_the_error_for_missing_psycopg_on_an_executor_tells_the_remedy(tmp_path: Path) -> None:
    ran = on_an_executor(tmp_path, {"airflow_provider_ckpt", "psycopg"}, "function(7, [batch])")
    assert "psycopg is not installed where this executor runs" in ran.stderr


def test_the_error_for_missing_psycopg_in_the_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("airflow_provider_ckpt.sinks.postgres.")]:
        if not name.endswith("postgres_sink"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Exception, match=r"airflow-provider-ckpt\[postgres\]") as raised:
        PostgresSink("orders", url="postgresql://h/d").bind(SinkContext("orders", "lake"))
    assert type(raised.value).__name__ == "MissingPackageError"
