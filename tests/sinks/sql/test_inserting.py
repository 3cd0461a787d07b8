"""The function that is sent to executors runs without this package."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import SERVER_STATUS
from pyspark import cloudpickle

from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql import inserting
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink

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
    cloudpickle.register_pickle_by_value(inserting)  # type: ignore[no-untyped-call]  # as the driver does
    function = inserting.inserter(
        "mysql",
        {"host": "256.0.0.1", "connect_timeout": 10, "read_timeout": 60},
        [],
        "INSERT",
        [("tags", False, None, None)],
    )
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
    error = {"code": 2003, "text": "error 2003, OperationalError", "is_connected": False}
    assert str({"task_attempt": 8, "rows": 0, "error": error}) in ran.stdout


def test_the_error_for_missing_pymysql_on_an_executor_tells_the_remedy(tmp_path: Path) -> None:
    ran = on_an_executor(tmp_path, {"airflow_provider_ckpt", "pymysql"}, "function(7, [batch])")
    assert "PyMySQL is not installed where this executor runs" in ran.stderr


def test_the_error_for_missing_pymysql_in_the_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("airflow_provider_ckpt.sinks.sql.")]:
        if not name.endswith((".sql_sink", ".dialect_names")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(Exception, match=r"airflow-provider-ckpt\[sql\]") as raised:
        SqlSink("orders", url="mysql://h/d").bind(SinkContext("orders", "lake"))
    assert type(raised.value).__name__ == "MissingPackageError"


@pytest.mark.parametrize(
    "values",
    [
        [0, -1, 2**63 - 1, -(2**63)],
        [0.1, -0.0, 1.0, 1e300, 1e-7, 123456789.5, 5e-324],
        [Decimal("0"), Decimal("-0.00"), Decimal("1E+5"), Decimal("0.0000000001"), Decimal("-12.50")],
        [*map(datetime.fromisoformat, ("0001-01-01", "9999-12-31 23:59:59.999999", "2026-01-02 03:04:05"))],
        [True, False],
        ["", "it's", "\\'; --", 'a "quote"', "line\nbreak", "\x1a"],
        [b"", b"\x00'\\"],
        [date(2026, 1, 2)],
    ],
    ids=lambda values: type(values[0]).__name__,
)
@pytest.mark.parametrize("status", [0, SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES])
def test_values_are_quoted_as_the_mysql_driver_quotes_them(values: list[Any], status: int) -> None:
    session = pymysql.connect(defer_connect=True)
    session.server_status = status
    cursor = session.cursor()
    of_driver = [cursor.mogrify("(%s,%s)", (value, None)) for value in [None, *values]]
    assert [*inserting._row_literals(session, [[None, *values], [None] * (len(values) + 1)])] == of_driver
