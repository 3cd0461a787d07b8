"""Job whose middle vertex is persisted."""

from __future__ import annotations

from pyspark.sql import DataFrame, DataFrameReader

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World
from tests.spark.jobs import IDS


def persisting(world: World, *, keep: bool = True, where: str = "id >= 0", sink: bool = True) -> Job:
    """Return the job history -> clean, which is persisted -> report."""
    job = Job("keeping")

    @job.source(bounded=True, max_files_per_trigger=1)
    def history(read: DataFrameReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("history"))

    @job.transform(inputs=[history], persist=keep, chain=False)
    def clean(rows: DataFrame) -> DataFrame:
        return rows.where(where)

    if sink:

        @job.transform(inputs=[clean])
        def report(rows: DataFrame) -> DataFrame:
            return rows.where("k = 0")

        job.sink("out", report, FileSink(world.path("out")))
    return job


def run_to_the_end(world: World, job: Job, **given: object) -> None:
    run = world.run(job, **given)  # type: ignore[arg-type]
    assert (run.status, run.cause) == ("FINISHED", None)
