"""``ckpt run --param`` with a real Spark, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main

CODE = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("daily")
FACTOR = int(job.param("factor"))


@F.udf("long")
def times(number):
    return number * FACTOR


@job.source(bounded=True)
def numbers(read):
    return read.schema("id LONG").json({source!r})


@job.transform(inputs=[numbers])
def multiplied(rows):
    return rows.select(times("id").alias("id"))


job.sink("lake", multiplied, FileSink({target!r} + job.param("day"), format="json"))
"""

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
    conf = ("--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false")
    command = [sys.executable, "-c", code, "run", "daily_in_spark:job", "--root", str(folder / "root"), *conf, *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=env)


def test_functions_of_a_module_have_the_parameters_in_executors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If an executor imported the module, its functions would have no parameters."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
    source, target = str(tmp_path / "in"), f"{tmp_path}/out/day="
    (tmp_path / "daily_in_spark.py").write_text(CODE.format(source=source, target=target))
    done = run(tmp_path, "--job-id", "d1", "--param", "day=1", "--param", "factor=10")
    assert done.returncode == 0, done.stderr[-3000:]
    files = (tmp_path / "out" / "day=1").glob("*.json")
    assert sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines()) == [10, 20]
    assert main(["show", "d1", "--root", str(tmp_path / "root")]) == 0
    assert "day=1, factor=10" in capsys.readouterr().out
    refused = run(tmp_path, "--job-id", "d2", "--param", "day=2")
    assert refused.returncode == 2
    assert "needs the parameter 'factor'" in refused.stderr
    assert not (tmp_path / "root" / "d2").exists()
