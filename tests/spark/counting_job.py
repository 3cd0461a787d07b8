"""Job with two queries over one live source, and a user who changes it while it runs."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.job.sink_operator import Gate
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.subtasklog.records import Open
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until


def counting(world: World, gate: Gate | None = None) -> Job:
    """Return a job with a feed and two more queries.

    One query marks the rows, and the other counts them by key.
    """
    job = Job("counting")

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[live], chain=False)
    def marked(rows: DataFrame) -> DataFrame:
        return rows.withColumn("by", F.lit("one"))

    @job.transform(inputs=[live], chain=False, output_mode="update")
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("last"))

    job.sink("out", marked, FileSink(world.path("out")), gate=gate)
    job.sink("counted", counts, FileSink(world.path("counted")), gate=gate)
    return job


def counting_version(world: World, name: str, marked: str = "", counts: str = "") -> str:
    """Write a file with another version of the job; return its reference."""
    marked = marked or 'return rows.withColumn("by", F.lit("two"))'
    counts = counts or 'return rows.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("last"))'
    path = Path(world.path("versions")) / f"{name}.py"
    path.write_text(
        textwrap.dedent(
            f"""
            from pyspark.sql import functions as F
            from airflow_provider_ckpt import FileSink, Job

            job = Job("counting")

            @job.source(max_files_per_trigger=1)
            def live(read):
                return read.schema("{IDS}").parquet("{world.path("live")}")

            @job.transform(inputs=[live], chain=False)
            def marked(rows):
                {marked}

            @job.transform(inputs=[live], chain=False, output_mode="update")
            def counts(rows):
                {counts}
            """
        )
    )
    return f"{path}:job"


class UserScript:
    """A user's actions on a running job, in a thread.

    They begin when the job is RUNNING. The job is stopped after them.
    """

    def __init__(self, world: World, work: Callable[[UserScript], None], end: str = "stop") -> None:
        self.world, self._work, self._end = world, work, end
        self.client = JobClient(str(world.root), world.job_id)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> UserScript:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            wait_until(lambda: self.client.read_state().status == "RUNNING", "a job that runs")
            self._work(self)
        except BaseException as error:
            self.error = error
        finally:
            # a run that waits for the rest of the script would never end, and the error would be hidden
            if self._end == "stop" or self.error is not None:
                self.client.stop()

    def change(self, changes: Reconfiguration) -> RequestOutcome:
        outcome = self.client.answer(self.client.reconfigure(changes), 60).outcome
        assert outcome is not None
        return outcome

    def put(self, start: int, files: int = 1, each: int = 10) -> None:
        """Write rows, and wait until both queries have released their results."""
        rows = start + files * each
        self.world.put_ids("live", files, each, start=start)
        wait_until(lambda: self.world.released_count() >= rows, "released rows")
        wait_until(lambda: final_counts(self.world) == expected_counts(rows), "released counts")


def final_counts(world: World) -> dict[int, tuple[int, int]]:
    counts: dict[int, tuple[int, int]] = {}
    for row in world.released("counted"):
        counts[row["k"]] = max(counts.get(row["k"], (0, 0)), (row["n"], row["last"]))
    return counts


def expected_counts(rows: int) -> dict[int, tuple[int, int]]:
    return {k: (len(range(k, rows, 3)), max(range(k, rows, 3))) for k in range(3)}


def check_counting(world: World, rows: int) -> None:
    assert world.released_ids() == list(range(rows))
    assert final_counts(world) == expected_counts(rows)


def state_partitions(world: World) -> int | None:
    """Return the number of state partitions of ``counts``, in the folder of its last attempt."""
    attempts = [record.attempt for _, record in world.records("counts") if isinstance(record, Open)]
    return AttemptFolders(world.storage, "job/vertices/counts/0/spark").folder(attempts[-1]).state_partitions()


def committed_folder(world: World, vertex: str = "counts") -> SparkFolder:
    attempts = [record.attempt for _, record in world.records(vertex) if isinstance(record, Open)]
    folders = AttemptFolders(world.storage, f"job/vertices/{vertex}/0/spark")
    return next(f for a in reversed(attempts) if (f := folders.folder(a)).newest_commit() is not None)
