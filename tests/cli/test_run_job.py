"""``ckpt run`` with a real Spark, as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")

@job.source
def live(read):
    return read.schema("id LONG").json({source!r})

@job.transform(inputs=[live])
def doubled(orders):
    {line}
    return orders.select((F.col("id") * 2).alias("id"))

job.sink("lake", doubled, FileSink({target!r}, format="json"))
"""

pytestmark = pytest.mark.spark


class Pipeline:
    """A folder with a job, its input and its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target, self.root = folder / "in", folder / "out", folder / "root"
        self.source.mkdir()
        (self.source / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
        self.write()

    def write(self, line: str = "") -> None:
        code = JOB.format(source=str(self.source), target=str(self.target), line=line or "pass")
        (self.folder / "pipeline.py").write_text(code)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
        reference = f"{self.folder / 'pipeline.py'}:job"
        conf = ("--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false")
        return subprocess.run(
            [sys.executable, "-c", code, "run", reference, "--root", str(self.root), *conf, *words],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def rows(self) -> list[int]:
        files = self.target.glob("*.json")
        return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)


def test_a_stopped_job_goes_on_and_a_drained_one_is_finished(pipeline: Pipeline) -> None:
    first = pipeline.run("--stop-after", "5s")
    assert first.returncode == 0, first.stderr
    assert pipeline.rows() == [2, 4]

    (pipeline.source / "2.json").write_text('{"id": 3}\n')
    second = pipeline.run("--drain-after", "5s", "--json")
    assert second.returncode == 0, second.stderr
    lines = [json.loads(line) for line in second.stdout.splitlines()]
    assert lines[-1]["kind"] == "finished"
    assert {line["job_id"] for line in lines} == {"orders"}
    assert pipeline.rows() == [2, 4, 6]

    third = pipeline.run()
    assert third.returncode == 0
    assert "FINISHED already" in third.stdout


def test_a_function_that_raises_is_refused_with_its_traceback(pipeline: Pipeline) -> None:
    pipeline.write("raise KeyError('no such shop')")
    done = pipeline.run("--stop-after", "5s")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f'File "{pipeline.folder / "pipeline.py"}"' in done.stderr
    assert "KeyError: 'no such shop'" in done.stderr
    assert pipeline.rows() == []


def test_a_job_that_fails_while_it_runs_exits_with_1(pipeline: Pipeline) -> None:
    pipeline.write("orders = orders.where(F.raise_error(F.lit('no such shop')).isNull())")
    done = pipeline.run("--stop-after", "60s")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no such shop" in done.stderr
    assert pipeline.rows() == []
