"""Plan of a race, for the library's job, for a plain query of Spark, and for Flink (``flink_race.py``).

As a job file (``bench/race_plan.py:job``) it builds the job from the environment (CKPT_BENCH_RACE, JSON of
:class:`RacePlan`). As a script it runs the plain query until it is terminated.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import plans

VARIABLE = "CKPT_BENCH_RACE"
JOB_ID = "bench"
Files = Literal["csv", "parquet"]


@dataclass(frozen=True)
class RacePlan:
    """The plan of one run.

    Attributes:
        variant: A is filter + projection, B is count and sums per customer. Both read history and a live folder.
        reads: csv or parquet.
        writes: csv or parquet.
        work: folder of the run.
        apart: one query reads history, and another one the live folder (A only).
    """

    variant: Literal["A", "B"]
    reads: Files
    writes: Files
    history: str
    work: str
    apart: bool = False
    files_per_trigger: int = 4

    @property
    def live(self) -> str:
        return f"{self.work}/live"

    @property
    def out(self) -> str:
        return f"{self.work}/out"

    @property
    def output_mode(self) -> Literal["append", "update"]:
        return "append" if self.variant == "A" else "update"

    def to_environ(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    def last_batch(self, files: int) -> int:
        """Return the id of the micro-batch that reads the last of ``files`` files of history."""
        return -(-files // self.files_per_trigger) - 1


def build(plan: RacePlan) -> Any:
    from airflow_provider_ckpt import FileSink, Job

    job = Job(JOB_ID)

    @job.source(bounded=True, max_files_per_trigger=plan.files_per_trigger)
    def history(read: Any) -> Any:
        return getattr(read.schema(plans.SCHEMA), plan.reads)(plan.history)

    @job.source
    def live(read: Any) -> Any:
        return getattr(read.schema(plans.SCHEMA), plan.reads)(plan.live)

    function = plans.cleaned if plan.variant == "A" else plans.totals
    inputs = {"history": [history], "live": [live]} if plan.apart else {"all": [history, live]}
    for name, sources in inputs.items():
        result = job.transform(inputs=sources, uid=f"result_{name}", output_mode=plan.output_mode)(function)
        job.sink(f"out_{name}", result, FileSink(plan.out, format=plan.writes))
    return job


def query_plainly(plan: RacePlan) -> None:
    """Run the plain query in a session like the library's. Each micro-batch writes a folder, from ``batch=0`` on."""
    from airflow_provider_ckpt.spark.app.session import build_session
    from bench.one_run import CONF

    spark = build_session(JOB_ID, CONF)
    read = spark.readStream.name("history").option("maxFilesPerTrigger", plan.files_per_trigger)
    history = getattr(read.schema(plans.SCHEMA), plan.reads)(plan.history)
    live = getattr(spark.readStream.name("live").schema(plans.SCHEMA), plan.reads)(plan.live)
    rows = history.unionByName(live)
    result = plans.cleaned(rows) if plan.variant == "A" else plans.totals(rows)
    writer = result.writeStream.queryName("result").outputMode(plan.output_mode).trigger(processingTime="0 seconds")
    writer = writer.option("checkpointLocation", f"{plan.work}/ckpt")

    def write(frame: Any, number: int) -> None:
        getattr(frame.write, plan.writes)(f"{plan.out}/batch={number}")

    writer.foreachBatch(write).start().awaitTermination()


if VARIABLE in os.environ:
    job = build(RacePlan(**json.loads(os.environ[VARIABLE])))

if __name__ == "__main__":
    query_plainly(RacePlan(**json.loads(sys.argv[1])))
