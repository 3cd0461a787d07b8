"""One measured run in this process. It prints one line of JSON. ``python bench/one_run.py '<Run as JSON>'``.

The clock runs from the start of the first micro-batch to the end of the micro-batch that commits the last rows of
history, so it leaves out the start of the JVM. Both sides have the same session, readers, functions and output files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, plans
from bench.measure import (
    CpuMeter,
    MicroBatch,
    Progress,
    history_batches,
    history_rows,
    is_of,
    machine_seconds,
    process_seconds,
)

CONF = {
    "spark.master": os.environ.get("CKPT_BENCH_MASTER", "local[2]"),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.driver.extraJavaOptions": "-Xms2g",
    "spark.sql.shuffle.partitions": "2",
}
JOB_ID = "bench"
QUERY = f"{JOB_ID}:result"
LONGEST_RUN = 1800.0
"""Seconds after which a run counts as hanging and is ended."""


@dataclass(frozen=True)
class Run:
    """A run to measure.

    Attributes:
        engine: ckpt (the library), foreachBatch (plain, writes a folder for each batch) or native (plain file sink).
    """

    engine: str
    variant: str
    chain: bool
    work: str
    rows: int
    history: str
    files_per_trigger: int = 4
    checkpoint_interval: float = 1.0
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def plan(self) -> plans.Plan:
        live, out = f"{self.work}/live", f"{self.work}/out"
        return plans.Plan(self.variant, self.history, live, out, self.files_per_trigger, self.chain)


def measured(run: Run) -> dict[str, Any]:
    """Run in a new folder. Return the seconds, rows a second, CPU µs a row, and batches."""
    from airflow_provider_ckpt.spark.app.session import build_session

    shutil.rmtree(run.work, ignore_errors=True)
    os.makedirs(run.work)
    os.environ.update(run.plan.to_environ())
    spark = build_session(JOB_ID, {**CONF, **run.conf})
    spark.sparkContext.setLogLevel("ERROR")
    whole = Whole(run.rows)
    progress = Progress(whole)
    spark.streams.addListener(progress)
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc.pid
    meters = [
        CpuMeter(lambda: process_seconds(jvm)),
        CpuMeter(lambda: process_seconds("self")),
        CpuMeter(machine_seconds),
    ]
    with contextlib.ExitStack() as stack:
        for meter in meters:
            stack.enter_context(meter)
        stack.enter_context(data.LiveFeed(Path(run.work) / "live"))
        run_it = _run_library if run.engine == "ckpt" else _run_plain
        released = run_it(spark, run, whole)
    report = _report(run, progress.batches, meters)
    report["wrong"] = wrong(run)
    if released is not None:
        report["released_after"] = released - report["end"]
    spark.stop()
    return report


class Whole:
    """Wait for the batch in which the result's query has read all of the history. ``batch_id`` is that batch."""

    def __init__(self, rows: int) -> None:
        self.batch_id: int | None = None
        self.reached = threading.Event()
        self._left = rows

    def __call__(self, batch: MicroBatch) -> None:
        if self.batch_id is None and is_of(QUERY, batch):
            self._left -= history_rows(batch)
            if self._left <= 0:
                self.batch_id = batch.batch_id
                self.reached.set()


def _run_plain(spark: Any, run: Run, whole: Whole) -> None:
    plan = run.plan
    read = spark.readStream.name("history").option("maxFilesPerTrigger", plan.files_per_trigger)
    rows = read.schema(plans.SCHEMA).parquet(plan.history)
    if plan.variant == "A":
        result = plans.cleaned(rows)
    else:
        live = spark.readStream.name("live").schema(plans.SCHEMA).parquet(plan.live)
        result = plans.totals(rows.unionByName(live))
    writer = result.writeStream.queryName(QUERY).outputMode(plan.output_mode)
    writer = writer.option("checkpointLocation", f"{run.work}/ckpt").trigger(processingTime="0 seconds")
    if run.engine == "native":
        query = writer.format("parquet").option("path", plan.out).start()
    else:
        query = writer.foreachBatch(lambda frame, n: frame.write.parquet(f"{plan.out}/batch={n}")).start()
    while not whole.reached.wait(0.2):
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
    query.stop()


def _run_library(spark: Any, run: Run, whole: Whole) -> float:
    """Run the job, and return the time when the last rows of history were released."""
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.journal.request_files import write_request
    from airflow_provider_ckpt.model.job_request import StopRequest
    from airflow_provider_ckpt.sinks.file.manifests import read_manifests
    from airflow_provider_ckpt.spark.main import run_job
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
    from airflow_provider_ckpt.storage.location import Location
    from airflow_provider_ckpt.storage.opening import open_storage

    root, conf = f"{run.work}/ckpt", {**CONF, **run.conf}
    options = RunOptions(
        job=f"{Path(__file__).parent}/plans.py:job",
        root=root,
        job_id=JOB_ID,
        mode="streaming",
        checkpoint_interval=run.checkpoint_interval,
        conf=conf,
    )
    lines: list[tuple[float, Any]] = []

    def covering() -> list[int]:
        """Return the checkpoints that released the last batch of the history."""
        manifests = read_manifests(run.plan.out)
        return [m.checkpoint for m in manifests if any(f"-{whole.batch_id}-" in one for one in m.batches)]

    def stop_when_released() -> None:
        whole.reached.wait()
        while not covering():
            time.sleep(0.2)
        write_request(open_storage(root), JOB_ID, StopRequest(epoch=1))

    threading.Thread(target=stop_when_released, daemon=True).start()
    code = run_job(RunRequest(options, Location(options.root), lambda line: lines.append((time.time(), line))))
    if code:
        raise RuntimeError(f"exit code {code}: {lines[-1:]}")

    return min(at for at, line in lines if line.kind == "released" and line.data["released"] >= min(covering()))


def _report(run: Run, batches: list[MicroBatch], meters: list[CpuMeter]) -> dict[str, Any]:
    taken = history_batches(batches, QUERY)
    start, end = min(batch.start for batch in batches), taken[-1].end
    jvm, python, machine = (meter.between(start, end) for meter in meters)
    times = [batch.end - batch.start for batch in taken]
    phases = {name: [batch.durations.get(name, 0) for batch in taken] for name in taken[0].durations}
    return {
        "seconds": end - start,
        "rows_per_second": run.rows / (end - start),
        "cpu_us_per_row": (jvm + python) / run.rows * 1e6,
        "python_us_per_row": python / run.rows * 1e6,
        "cores": (jvm + python) / (end - start),
        "cores_of_others": (machine - jvm - python) / (end - start),
        "batches": len(taken),
        "first_batch": times[0],
        "between_batches": end - start - sum(times),
        "median_batch": statistics.median(times),
        "median_ms": {name: statistics.median(values) for name, values in phases.items()},
        "end": end,
    }


def wrong(run: Run) -> str | None:
    """Return the error in the output; None if it holds each row of history once (B: in each customer's newest row)."""
    from airflow_provider_ckpt.sinks.file.manifests import released_files

    of_engine = {"ckpt": lambda: [uri.removeprefix("file://") for uri in released_files(run.plan.out)]}
    found = of_engine.get(run.engine, lambda: [str(path) for path in Path(run.plan.out).glob("**/part-*.parquet")])()
    rows = pa.concat_tables([parquet.read_table(path, partitioning=None) for path in found])
    got = data.sums(run.variant, rows)
    history = data.history(Path(run.history).parent, run.rows)
    wanted = (history.kept, history.id_sum, history.cents_sum)
    return None if got == wanted else f"rows, sum of ids, sum of cents are {got}, not {wanted}"


def start(run: Run) -> dict[str, Any]:
    """Run in a new process, and return its report.

    Raises RuntimeError with the end of its output.
    """
    with tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, __file__, json.dumps(asdict(run))]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=LONGEST_RUN)
        errors.seek(0)
        if done.returncode:
            raise RuntimeError(f"{run} failed:\n{done.stdout[-2000:]}\n{errors.read()[-4000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


if __name__ == "__main__":
    print(json.dumps(measured(Run(**json.loads(sys.argv[1])))))
