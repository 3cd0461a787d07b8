"""``ckpt run`` with a real Spark, in a separate process."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from tests.support.waiting import wait_until

JOB = """
from pyspark.sql import functions as F
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")
twice = F.udf(lambda number: number * 2, "long")

@job.source({how})
def live(read):
    return read.schema("id LONG").json({source!r})

@job.transform(inputs=[live])
def doubled(orders):
    {line}
    return orders.select(twice("id").alias("id"))

job.sink("lake", doubled, FileSink({target!r}, format="json"))
"""

pytestmark = pytest.mark.spark


class Pipeline:
    """Folder with a job, its input and its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target, self.root = folder / "in", folder / "out", folder / "root"
        self.source.mkdir()
        (self.source / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
        self.write()

    def write(self, line: str = "", how: str = "") -> None:
        code = JOB.format(source=str(self.source), target=str(self.target), line=line or "pass", how=how)
        (self.folder / "pipeline.py").write_text(code)

    def command(self, *words: str) -> list[str]:
        code = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
        reference = f"{self.folder / 'pipeline.py'}:job"
        conf = ("--conf", "spark.master=local[1]", "--conf", "spark.ui.enabled=false")
        return [sys.executable, "-c", code, "run", reference, "--root", str(self.root), *conf, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=280, check=False)

    def run_until(self, rows: list[int], end: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run until ``rows`` are released, then ask for ``end`` ("stop" or "drain") and wait for the exit."""
        command = self.command("--checkpoint-interval", "1s", *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: self.rows() == rows or process.poll() is not None, f"rows {rows}", seconds=200)
                if process.poll() is None:
                    assert main([end, "orders", "--root", str(self.root)]) == 0
                out, err = process.communicate(timeout=200)
            finally:
                process.kill()
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def rows(self) -> list[int]:
        files = self.target.glob("*.json")
        return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)


@pytest.mark.slow
def test_a_stopped_job_resumes_and_a_drained_job_is_finished(pipeline: Pipeline) -> None:
    first = pipeline.run_until([2, 4], "stop")
    assert first.returncode == 0, first.stderr
    assert pipeline.rows() == [2, 4]

    (pipeline.source / "2.json").write_text('{"id": 3}\n')
    second = pipeline.run_until([2, 4, 6], "drain", "--json")
    assert second.returncode == 0, second.stderr
    lines = [json.loads(line) for line in second.stdout.splitlines()]
    assert lines[-1]["kind"] == "finished"
    assert {line["job_id"] for line in lines} == {"orders"}
    assert pipeline.rows() == [2, 4, 6]

    third = pipeline.run()
    assert third.returncode == 0
    assert "FINISHED already" in third.stdout


@pytest.mark.slow
def test_a_python_udf_after_a_result_partition_runs(pipeline: Pipeline) -> None:
    """Spark 4.2.0 would hang in its first batch (SPARK-58241)."""
    pipeline.write(how="chain=False")
    done = pipeline.run_until([2, 4], "drain")
    assert done.returncode == 0, done.stderr
    assert pipeline.rows() == [2, 4]


@pytest.mark.slow
def test_a_function_that_raises_is_refused_with_its_traceback(pipeline: Pipeline) -> None:
    pipeline.write("raise KeyError('no such shop')")
    done = pipeline.run()
    assert done.returncode == 2, done.stdout + done.stderr
    assert f'File "{pipeline.folder / "pipeline.py"}"' in done.stderr
    assert "KeyError: 'no such shop'" in done.stderr
    assert pipeline.rows() == []


def test_a_spark_start_failure_is_reported_in_the_last_line(pipeline: Pipeline) -> None:
    done = pipeline.run("--conf", "spark.driver.memory=much")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("ckpt: error: Spark could not be started: ")
    assert not pipeline.root.exists()


@pytest.mark.slow
def test_a_jvm_that_ends_during_planning_is_reported_as_such(pipeline: Pipeline) -> None:
    pipeline.write(
        "import os; os.kill(int(orders.sparkSession._jvm.java.lang.ProcessHandle.current().pid()), 9); orders.count()"
    )
    done = pipeline.run()
    assert done.returncode == 1, done.stdout + done.stderr
    # This is not always the last line, because py4j logs each object that it cannot release when it is collected.
    [error_line] = [line for line in done.stderr.splitlines() if line.startswith("ckpt: error: ")]
    assert error_line.startswith("ckpt: error: Spark's JVM ended before the job was planned")
    assert not pipeline.root.exists()


@pytest.mark.slow
def test_a_job_that_fails_while_it_runs_exits_with_1(pipeline: Pipeline) -> None:
    pipeline.write("orders = orders.where(F.raise_error(F.lit('no such shop')).isNull())")
    done = pipeline.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no such shop" in done.stderr
    assert pipeline.rows() == []


@pytest.mark.slow
def test_python_workers_run_the_configured_python(pipeline: Pipeline) -> None:
    python = pipeline.folder / "python"
    python.write_text(f'#!/bin/sh\ntouch {pipeline.folder}/started\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    pipeline.write(how="bounded=True")
    done = pipeline.run("--conf", f"spark.pyspark.python={python}")
    assert done.returncode == 0, done.stderr
    assert pipeline.rows() == [2, 4]
    assert (pipeline.folder / "started").exists()


@pytest.mark.slow
def test_a_failed_function_is_printed_with_user_frames_only(
    pipeline: Pipeline,
) -> None:
    """Spark logs the failure six times, with 40 frames of the JVM each."""
    (pipeline.source / "1.json").write_text('{"id": null}\n')
    pipeline.write(how="bounded=True")
    done = pipeline.run()
    assert done.returncode == 1, done.stdout + done.stderr
    cause = "unsupported operand type(s) for *: 'NoneType' and 'int'"
    assert f"doubled/0 failed with TypeError: {cause}\n" in done.stdout
    lines = done.stderr.splitlines()
    frame = lines.index(f'  File "{pipeline.folder / "pipeline.py"}", line 6, in <lambda>')
    assert lines[frame + 1] == '    twice = F.udf(lambda number: number * 2, "long")'
    assert lines[-1].startswith("ckpt: error: job orders RESTARTING: doubled/0: ")
    assert sum(cause in line for line in lines) == 1
    assert len(lines) < 40, done.stderr
    assert not [line for line in lines if line.startswith("\tat ")]
    traces = Path(lines[-2].removeprefix("ckpt: whole stack traces are in "))
    try:
        text = traces.read_text()
    finally:
        traces.unlink()
    assert "\tat org.apache.spark.scheduler.Task.run(" in text
    assert "subtask doubled/0 failed\nTraceback (most recent call last):\n" in text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_job_with_a_savepoint(pipeline: Pipeline, number: signal.Signals) -> None:
    with subprocess.Popen(
        pipeline.command("--checkpoint-interval", "300s"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "RUNNING" in line:
                break
        process.send_signal(number)
        rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "STOPPED" in rest
    assert f"{number.name}: taking a savepoint" in errors
    assert pipeline.run_until([2, 4], "drain").returncode == 0
    assert pipeline.rows() == [2, 4]


@pytest.mark.slow
def test_the_status_shows_that_the_driver_was_killed(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(pipeline.command(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "RUNNING" in line:
                break
        assert main(["jobs", "--root", str(pipeline.root)]) == 0
        assert "driver is gone" not in capsys.readouterr().out
        process.kill()
    for command in (["jobs"], ["show", "orders"]):
        assert main([*command, "--root", str(pipeline.root)]) == 0
        assert "RUNNING (its driver is gone" in capsys.readouterr().out
    assert main(["show", "orders", "--root", str(pipeline.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["driver_alive"] is False


@pytest.mark.slow
def test_a_deleted_job_does_not_run_again_over_its_output(pipeline: Pipeline) -> None:
    delete = ["delete", "orders", "--root", str(pipeline.root)]
    pipeline.run_until([2, 4], "stop")
    output = {path: path.read_bytes() for path in pipeline.target.rglob("*") if path.is_file()}
    assert main(delete) == 2  # refused, because the job is STOPPED
    assert main([*delete, "--unfinished", "--yes"]) == 0
    assert [path.name for path in (pipeline.root / "orders").iterdir()] == ["journal"]
    again = pipeline.run()
    assert again.returncode == 2
    assert "job 'orders' is DELETED since" in again.stderr
    shutil.rmtree(pipeline.root / "orders")  # deleted by hand, but its sink still knows the job
    by_hand = pipeline.run()
    assert by_hand.returncode == 2
    assert "holds output of a job of that name" in by_hand.stderr
    assert {path: path.read_bytes() for path in output} == output
    assert pipeline.rows() == [2, 4]
