"""Errors around persisted results: they are reported at once, by name.

Only a permanent error makes a job FAILED.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job, JobClient, NoSuchResultError, ResultNotPersistedError, read_persisted
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.errors import DefinitionChangedError, InvalidJobError, SplitsFailedError
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.spark.faults import BATCH, RefusedEntries
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.spark.persisting_job import persisting, run_to_the_end

pytestmark = pytest.mark.slow

LATER = ResultNotPersistedError(job_id="other", operator="clean", status="RUNNING")
NEVER = NoSuchResultError(job_id="other", operator="clean", status="DELETED", known="none")
OVERTAKEN = FencedError(job_id="another", epoch=4, attempt="b", worker="host b", own_epoch=3)


def failing(world: World, error: CkptError, where: str) -> Job:
    """Return a job with a source whose function, or whose function for splits, fails with ``error``."""
    job = Job("failing")

    def of_splits() -> list[str]:
        if where == "splits":
            raise error
        return ["all"]

    def rows(read: DataFrameReader, split: str = "") -> DataFrame:
        if where == "split" or not split:
            raise error
        return read.schema(IDS).parquet(world.path("history"))

    if where == "source":
        source = job.source(bounded=True, uid="rows")(lambda read: rows(read))
    else:
        source = job.source(bounded=True, uid="rows", splits=of_splits)(lambda read, split: rows(read, split))
    job.sink("out", source, FileSink(world.path("out")))
    return job


@pytest.mark.parametrize("where", ["source", "split", "splits"])
def test_a_temporary_refusal_is_retryable(world: World, where: str) -> None:
    with pytest.raises(ResultNotPersistedError) as raised:
        world.run(failing(world, LATER, where))
    assert ExitCode.of_error(raised.value) is ExitCode.FAILED
    assert not world.root.exists()


@pytest.mark.parametrize("where", ["source", "split", "splits"])
def test_a_fence_of_another_job_is_no_fence_of_this_one(world: World, where: str) -> None:
    with pytest.raises((FunctionFailedError, SplitsFailedError), match="another was taken over") as raised:
        world.run(failing(world, OVERTAKEN, where))
    assert ExitCode.of_error(raised.value) is ExitCode.REFUSED


@pytest.mark.parametrize("where", ["source", "split"])
@pytest.mark.parametrize(("error", "ends_with"), [(LATER, "RESTARTING"), (NEVER, "FAILED")])
def test_only_temporary_errors_during_a_run_are_retried(
    world: World, error: CkptError, ends_with: str, where: str
) -> None:
    """The result exists when the job is planned, and is gone when it is read."""
    world.put_ids("history", 1, 3)
    job = Job("failing")

    def rows(read: DataFrameReader, split: str = "") -> DataFrame:
        if world.root.exists() and world.state().plan is not None:
            raise error
        return read.schema(IDS).parquet(world.path("history"))

    if where == "source":
        source = job.source(bounded=True, uid="rows")(lambda read: rows(read))
    else:
        source = job.source(bounded=True, uid="rows", splits=["all"])(lambda read, split: rows(read, split))
    job.sink("out", source, FileSink(world.path("out")))
    run = world.run(job, restart_attempts=0)
    assert (run.status, run.cause is not None and str(error) in run.cause) == (ends_with, True)


def test_a_persisted_result_is_read_as_a_split_once_its_job_finished(world: World) -> None:
    world.put_ids("history", 3, 2)
    days = Job("days")

    @days.source(bounded=True, splits=["job"])
    def rows(read: DataFrameReader, split: str) -> DataFrame:
        return read_persisted(read, world.root, split, "clean")

    days.sink("out", rows, FileSink(world.path("copy")))
    assert (
        world.run(persisting(world), storage=RefusedEntries(world.storage, "report", BATCH), mode="batch").status
        == "RESTARTING"
    )
    other = World(world.base / "other")
    with pytest.raises(ResultNotPersistedError, match="job 'job' is RESTARTING"):
        other.run(days)
    run_to_the_end(world, persisting(world), mode="batch")
    run_to_the_end(other, days)
    assert world.released_ids("copy") == [*range(6)]


@pytest.mark.parametrize("by", ["files", "one split"])
def test_a_result_without_rows_is_read_as_one_split_next_to_a_live_source(world: World, by: str) -> None:
    """Read by its files, the result is refused, because it has no files."""
    world.put_ids("history", 1, 3)
    run_to_the_end(world, persisting(world, where="id < 0"))
    other = World(world.base / "other")
    live = other.put_ids("live", 1, 3, start=100)
    job = Job("splits")
    files = JobClient(world.root, world.job_id).persisted_result("clean").files

    @job.source(bounded=True, splits=(lambda: files) if by == "files" else ["all"])
    def kept(read: DataFrameReader, split: str) -> DataFrame:
        return read_persisted(read, world.root, world.job_id, "clean")

    @job.source
    def feed(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(other.path("live"))

    @job.transform(inputs=[kept, feed])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(other.path("out")))
    if by == "files":
        with pytest.raises(InvalidJobError, match="none at all"):
            other.run(job)
        return
    run = other.run(job, other.drain_at(len(live)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert other.released_ids() == sorted(live)


@pytest.mark.parametrize("keep", [True, False])
def test_a_finished_job_with_another_persist_setting_is_refused(world: World, keep: bool) -> None:
    world.put_ids("history", 1, 3)
    run_to_the_end(world, persisting(world, keep=not keep))
    with pytest.raises(DefinitionChangedError, match=r"results that are kept \(persist\).*has FINISHED"):
        world.run(persisting(world, keep=keep))
    run_to_the_end(world, persisting(world, keep=not keep))
