"""Failed stops of whole jobs: a job is STOPPED only after a stop that took place."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.spark.task.interruptions import LOGGERS
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task import local_gateway
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedEntries, HookedStorage, at_prepared
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS, mixed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


class NoBarrier(WrappedStorage):
    """A storage that refuses each barrier at first while ``broken`` is set.

    The second append succeeds, too late for the checkpoint.
    """

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.broken = False
        self.tries: Counter[str] = Counter()

    def create(self, path: str, data: bytes) -> None:
        body, checkpoint = data.decode(), ""
        if self.broken and "/vertices/" in path and '"type": "Barrier"' in body:
            checkpoint = body.partition('"checkpoint": ')[2].partition(",")[0]
            self.tries[checkpoint] += 1
        if 0 < self.tries[checkpoint] <= 3:  # the log appends at most three times
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="503")
        self.inner.create(path, data)


def slow(world: World) -> tuple[Job, Path, Path]:
    """Return a job whose first batch creates one file and waits until the test creates the other one."""
    job = Job("slow")
    began, go = world.base / "began", world.base / "go"

    @job.source(max_files_per_trigger=1)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    def work(number: int) -> int:
        began.touch()
        while not go.exists():
            time.sleep(0.02)
        return number

    @job.transform(inputs=[live])
    def slowly(rows: DataFrame) -> DataFrame:
        return rows.coalesce(1).withColumn("k", F.udf(work, LongType())("id"))

    job.sink("out", slowly, FileSink(world.path("out")))
    return job, began, go


def test_a_stop_with_a_failing_savepoint_fails_and_the_job_continues(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 2, 2, 1000)
    storage, asked = NoBarrier(world.storage), list[str]()
    drain = world.drain_at(len(expected))

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            storage.broken = True
            asked.append(write_request(world.storage, world.job_id, StopRequest(epoch=1)).name)
        drain(line)

    def until_it_has_failed() -> None:
        wait_until(lambda: world.state().outcomes, "the outcome of the stop")
        storage.broken = False

    # the end of history triggers the only other checkpoint; history is paused until the stop has failed
    held = HookedStorage(storage, at_prepared("doubled", 2, until_it_has_failed))
    run = world.run(mixed(world), on_line, held, checkpoint_interval=36_000, tolerable_failed_checkpoints=1)
    assert (run.status, run.cause) == ("FINISHED", None)
    outcome = str(world.state().outcomes[asked[0]])
    assert outcome.startswith("failed: the stop did not take place: 2 savepoints failed (1 tolerated)")
    assert outcome.endswith("the job continues")
    assert world.released_ids() == sorted(expected)


def test_a_leaving_stop_without_a_savepoint_ends_as_restarting(world: World) -> None:
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000)
    storage, asked = NoBarrier(world.storage), []

    def on_line(line: Line) -> None:
        if line["kind"] == "running":
            storage.broken = True
            asked.append(write_request(world.storage, world.job_id, StopRequest(exit_if_it_fails=True, epoch=1)).name)

    run = world.run(mixed(world), on_line, storage=storage, checkpoint_interval=30)
    assert run.status == "RESTARTING"
    assert (run.cause or "").startswith("the stop did not take place: 1 savepoint failed (0 tolerated)")
    assert str(world.state().outcomes[asked[0]]) == f"failed: {run.cause}"
    again = world.run(mixed(world), world.drain_at(len(expected)))
    assert again.status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def test_a_retry_after_stop_at_warns_and_stops_with_a_savepoint(world: World) -> None:
    world.put_ids("history", 2, 2)
    world.put_ids("live", 2, 2, 1000)
    assert world.run(mixed(world), world.ask("stop", lambda: world.released_count() >= 2)).status == "STOPPED"
    over = (datetime.now(timezone.utc) - timedelta(minutes=1)).isoformat()
    run = world.run(mixed(world), stop_at=over)
    assert run.status == "STOPPED"
    assert any(line["message"].startswith(f"stop_at ({over}) is over") for line in run.of("warning"))
    state = world.state()
    assert state.last_completed == state.last_released
    assert state.checkpoints[state.last_completed].kind == "savepoint"


@pytest.fixture
def spark_log(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Yield a file with Spark's log from WARN up, because this process cannot read Spark's standard error."""
    jvm: Any = spark._jvm
    context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
    configuration, path = context.getConfiguration(), tmp_path / "spark.log"
    core = jvm.org.apache.logging.log4j.core
    layout = core.layout.PatternLayout.newBuilder().withPattern("%p %c %m%n%throwable%n").build()
    builder = core.appender.FileAppender.newBuilder()
    builder.setName("test")
    builder.withFileName(str(path))
    builder.setLayout(layout)
    appender = builder.build()
    appender.start()
    configuration.getRootLogger().addAppender(appender, None, None)
    spark.sparkContext.setLogLevel("WARN")
    yield path
    spark.sparkContext.setLogLevel("OFF")
    configuration.getRootLogger().removeAppender("test")
    context.updateLoggers()
    appender.stop()


def _configured_loggers(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getLoggers()


@pytest.mark.parametrize("patience", [0.0, 60.0], ids=["interrupted", "let end"])
def test_d18_a_batch_that_runs_at_a_stop_logs_no_stack_trace(
    world: World,
    patience: float,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
    spark_log: Path,
) -> None:
    """The bug printed hundreds of lines of stack traces for a run without an error."""
    monkeypatch.setattr(local_gateway, "LAST_BATCH", patience)
    job, began, go = slow(world)
    expected = world.put_ids("live", 1, 4)
    stopped = HookedEntries(world.storage, '"STOPPED"', lambda: go.touch() if patience else None)
    run = world.run(job, world.ask("stop", began.exists), stopped)
    assert run.status == "STOPPED"
    jvm: Any = spark._jvm
    jvm.org.apache.logging.log4j.LogManager.getLogger("test").warn("this is the log")
    logged = spark_log.read_text()
    assert "WARN test this is the log" in logged
    assert "Exception" not in logged
    assert "ERROR" not in logged
    published = [record for _, record in world.records("slowly") if isinstance(record, Batch)]
    assert len(published) == (1 if patience else 0)
    assert not [name for name in LOGGERS if _configured_loggers(spark).containsKey(name)]
    go.touch()
    drained = world.run(job, world.drain_at(len(expected)))
    assert drained.status == "FINISHED"
    assert world.released_ids() == sorted(expected)
