"""A resumed job in batch mode, with all or only a part of its published results (FLIP-383).

Only lost results that are needed are produced again, and every row is released once.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.errors import SubtaskLogLostError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import BATCH, END, Fault, FaultyStorage, HookedEntries, HookedStorage, RefusedEntries
from tests.spark.harness import Run, World
from tests.spark.jobs import IDS
from tests.spark.split_jobs import SplitReader, ids_of, splits
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

GIVEN = splits(6)


def job_of(world: World, read: SplitReader, *, sinks: bool = True) -> Job:
    """Return the job parts (by split) -> clean -> report.

    A vertex without a sink is finished as soon as it is at its end.
    """
    job = Job("recovery")

    @job.source(bounded=True, splits=GIVEN, parallelism=2)
    def parts(reader: object, split: dict[str, object]) -> DataFrame:
        return read(reader, split)  # type: ignore[arg-type]

    @job.transform(inputs=[parts], chain=False)
    def clean(rows: DataFrame) -> DataFrame:
        return rows.where("id >= 0")

    @job.transform(inputs=[clean], chain=False)
    def report(rows: DataFrame) -> DataFrame:
        return rows.where("k >= 0")

    for name, operator in (("raw", parts), ("cleaned", clean), ("out", report))[0 if sinks else 2 :]:
        job.sink(name, operator, FileSink(world.path(name)))
    return job


def run_until_death(
    world: World, read: SplitReader, vertex: str = "report", text: str = BATCH, *, sinks: bool = True
) -> None:
    """Let the driver lose its storage when the vertex publishes, or at an entry with another ``text``."""
    died = world.run(job_of(world, read, sinks=sinks), storage=RefusedEntries(world.storage, vertex, text))
    assert died.status == "RESTARTING"
    assert world.state().last_completed == 0


def results(world: World, vertex: str) -> list[Path]:
    """Return the data files of the vertex's result partition, of all subtasks."""
    return sorted((world.root / world.job_id / "vertices" / vertex).glob("*/partition/**/part-*.parquet"))


def file_of_split(world: World, name: str) -> Path:
    """Return a data file of the split."""
    path, *_ = [
        world.root / world.job_id / "vertices" / "parts" / str(number) / "partition" / file.path
        for number in (0, 1)
        for _, record in world.records("parts", number)
        if name in getattr(record, "splits", ())
        for file in record.files  # type: ignore[union-attr]
    ]
    return path


def restarted(world: World) -> dict[str, int | None]:
    """Return the subtasks that run again -> their number of splits, or None without splits."""
    reconciled = world.state().reconciled
    assert reconciled is not None
    return {reset.subtask: None if reset.splits is None else size(reset.splits) for reset in reconciled.reset}


def run_to_the_end(world: World, read: SplitReader, *, sinks: bool = True) -> Run:
    """Run the job to its end and check that all rows are released once.

    The driver plans with the first remaining split, if there is one.
    """
    run = world.run(job_of(world, read, sinks=sinks))
    assert (run.status, run.cause) == ("FINISHED", None)
    for name in ("raw", "cleaned", "out")[0 if sinks else 2 :]:
        assert world.released_ids(name) == ids_of(GIVEN), name
    return run


def test_finished_results_are_kept(world: World) -> None:
    read = SplitReader()
    run_until_death(world, read)
    read.asked.clear()
    there = JobClient(world.storage, world.job_id).get_partition_with_metrics()
    files = {vertex: results(world, vertex) for vertex in ("parts", "clean")}
    assert sum(partition.rows or 0 for partition in there if partition.subtask.vertex == "parts") == len(ids_of(GIVEN))
    assert [partition.rows for partition in there if partition.subtask.vertex == "clean"] == [len(ids_of(GIVEN))]
    assert {partition.subtask.vertex for partition in there if partition.is_finished} == set(files)
    for vertex, paths in files.items():
        sizes = [partition.bytes for partition in there if partition.subtask.vertex == vertex]
        assert sum(sizes) == sum(path.stat().st_size for path in paths)
    run = run_to_the_end(world, read)
    assert read.asked == []
    assert restarted(world) == {}
    (line,) = run.of("reconciled")
    assert line["message"] == "kept from earlier runs: clean, parts (6 splits); run again: nothing"


def test_without_recovery_the_job_restarts_from_scratch(world: World) -> None:
    """Flink's option for this is ``execution.batch.job-recovery.enabled: false``."""
    read = SplitReader()
    run_until_death(world, read)
    read.asked.clear()
    run = world.run(job_of(world, read), batch_recovery=False)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(read.asked) == sorted([*(f"part-{number}" for number in range(6)), "part-0"])  # the plan, once
    assert run.of("anew")[0]["message"].endswith("no checkpoint has completed, and batch_recovery is off")
    assert run.of("reconciled") == []
    for name in ("raw", "cleaned", "out"):
        assert world.released_ids(name) == ids_of(GIVEN), name
    again = world.run(job_of(world, read), batch_recovery=False)
    assert (again.status, again.of("anew")) == ("FINISHED", [])


class NoRelease(WrappedStorage):
    """A storage that fails between the completion of a checkpoint and the entry about its release."""

    def create(self, path: str, data: bytes) -> None:
        if b'"type": "CheckpointReleased"' in data:
            raise StorageTransientError(verb="create", uri=path, reason="gone")
        self.inner.create(path, data)


@pytest.mark.parametrize("dies_again", [False, True])
def test_a_job_in_batch_mode_restores_its_last_checkpoint(world: World, dies_again: bool) -> None:
    """The restore completes the missing release, as with "latest".

    It must not ask for Spark folders, because a batch job has none.
    """
    read = SplitReader()
    with suppress(TransientError):
        world.run(job_of(world, read), storage=NoRelease(world.storage))
    assert (world.state().last_completed, world.state().last_released) == (1, 0)
    read.asked.clear()
    if dies_again:
        with suppress(TransientError):
            world.run(
                job_of(world, read), storage=RefusedEntries(world.storage, "report", '"type": "Open"'), restore="chk-1"
            )
        assert world.state().restored == 1
    run = world.run(job_of(world, read), restore="chk-1")
    assert (run.status, run.cause) == ("FINISHED", None)
    assert set(read.asked) <= {"part-0"}  # the plan
    for name in ("raw", "cleaned", "out"):
        assert world.released_ids(name) == ids_of(GIVEN), name


def test_a_lost_result_that_cannot_be_reproduced_fails_the_job(world: World) -> None:
    """A checkpoint covers rows, and the lost result belongs to operators that were added later.

    The bug reported each run as one to retry.
    """
    read = SplitReader()
    expected = world.put_ids("history", 3, 1)
    with suppress(TransientError):
        world.run(job_of(world, read), storage=NoRelease(world.storage))
    assert world.state().last_completed == 1

    def with_more() -> Job:
        job = job_of(world, read)

        @job.source(bounded=True, chain=False)
        def history(read: DataFrameReader) -> DataFrame:
            return read.schema(IDS).parquet(world.path("history"))

        @job.transform(inputs=[history], chain=False)
        def more(rows: DataFrame) -> DataFrame:
            return rows

        job.sink("more_out", more, FileSink(world.path("more")))
        return job

    died = world.run(with_more(), storage=RefusedEntries(world.storage, "more", BATCH))
    assert died.status == "RESTARTING"
    lost, *_ = results(world, "history")
    content = lost.read_bytes()
    lost.unlink()
    run = world.run(with_more())
    assert (run.status, lost.name in str(run.cause), "--resume-failed" in str(run.cause)) == ("FAILED", True, True)
    lost.write_bytes(content)
    assert world.run(with_more(), resume_failed=True).status == "FINISHED"
    assert world.released_ids("more") == sorted(expected)
    assert world.released_ids("out") == ids_of(GIVEN)


def test_a_finished_vertex_after_an_unreleased_one_stays_finished(world: World) -> None:
    """The driver dies between the final checkpoint and its release.

    A vertex without a sink has FINISHED. The vertex before it has a sink and is only at its end. The bug refused each
    later run.
    """
    read, job = SplitReader(), Job("recovery")

    @job.source(bounded=True, splits=GIVEN)
    def parts(reader: object, split: dict[str, object]) -> DataFrame:
        return read(reader, split)  # type: ignore[arg-type]

    @job.transform(inputs=[parts], chain=False)
    def clean(rows: DataFrame) -> DataFrame:
        return rows

    @job.transform(inputs=[clean], chain=False)
    def report(rows: DataFrame) -> DataFrame:
        return rows

    for name, operator in (("raw", parts), ("out", report)):
        job.sink(name, operator, FileSink(world.path(name)))
    with suppress(TransientError):
        world.run(job, storage=NoRelease(world.storage))
    assert (world.state().last_completed, world.state().last_released) == (1, 0)
    read.asked.clear()
    run = world.run(job)
    assert (run.status, run.cause, read.asked) == ("FINISHED", None, [])
    for name in ("raw", "out"):
        assert world.released_ids(name) == ids_of(GIVEN), name


def test_without_recovery_a_completed_checkpoint_is_only_released(world: World) -> None:
    """The driver dies between the final checkpoint and its release."""
    read = SplitReader()
    with suppress(TransientError):
        world.run(job_of(world, read), storage=NoRelease(world.storage))
    assert (world.state().last_completed, world.state().last_released) == (1, 0)
    read.asked.clear()
    run = world.run(job_of(world, read), batch_recovery=False)
    assert (run.status, run.of("anew"), read.asked) == ("FINISHED", [], [])
    assert world.released_ids("out") == ids_of(GIVEN)


def test_a_lost_result_without_further_readers_is_not_needed(world: World) -> None:
    read = SplitReader()
    run_until_death(world, read)
    for path in results(world, "parts"):
        path.unlink()
    read.asked.clear()
    run_to_the_end(world, read)
    assert (read.asked, restarted(world)) == ([], {})


def test_only_the_producer_of_a_lost_result_runs_again(world: World) -> None:
    read = SplitReader()
    run_until_death(world, read)
    results(world, "clean")[0].unlink()
    read.asked.clear()
    run = run_to_the_end(world, read)
    assert (read.asked, restarted(world)) == ([], {"clean/0": None})
    assert "clean/0 (files of 1 batch are gone that report/0 must read)" in run.of("reconciled")[0]["message"]


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_only_lost_splits_are_read_again(world: World, how: str) -> None:
    read = SplitReader()
    run_until_death(world, read, "clean")
    lost = [file_of_split(world, name) for name in ("part-1", "part-4")]
    for path in lost:
        path.unlink() if how == "gone" else path.write_bytes(b"")
    read.asked.clear()
    run_to_the_end(world, read)
    assert Counter(read.asked) - Counter({"part-0": 1}) == Counter({"part-1": 1, "part-4": 1})  # part-0: the plan
    assert sum(count or 0 for count in restarted(world).values()) == 2


@pytest.mark.parametrize("sinks", [True, False], ids=["at its end", "finished"])
def test_recovery_follows_lost_results_upstream(world: World, sinks: bool) -> None:
    """The output of clean is lost, so its input is needed again. One split of that input is lost, too."""
    read = SplitReader()
    run_until_death(world, read, sinks=sinks)
    assert ("clean/0" in world.state().finished) is not sinks
    file_of_split(world, "part-3").unlink()
    for path in results(world, "clean"):
        path.unlink()
    read.asked.clear()
    run_to_the_end(world, read, sinks=sinks)
    assert set(read.asked) - {"part-0"} == {"part-3"}
    again = restarted(world)
    assert again.pop("clean/0") is None
    assert list(again.values()) == [1]


def test_a_result_lost_during_a_run_is_produced_again_by_the_next(world: World) -> None:
    read = SplitReader()

    def lose() -> None:
        if results(world, "parts"):
            results(world, "parts")[0].unlink()

    died = world.run(job_of(world, read), storage=HookedEntries(world.storage, '"type": "EndOfData"', lose))
    assert died.status == "RESTARTING"
    assert "the next run produces every missing file again" in str(died.cause)
    read.asked.clear()
    run_to_the_end(world, read)
    assert len(set(read.asked) - {"part-0"}) <= 1


def test_an_end_written_by_a_fenced_driver_hides_no_lost_split(world: World) -> None:
    """The bug completed and released the job without the split."""

    read = SplitReader()
    run_until_death(world, read, "parts", END)
    file_of_split(world, "part-3").unlink()
    overtaken = [SubtaskLog(world.storage, subtask_log_path(world.job_id, "parts", number)) for number in (0, 1)]
    for log in overtaken:
        log.load()
    done: list[str] = []

    def hook(verb: str, path: str) -> None:
        if verb == "create" and "/vertices/parts/0/log/" in path and not done:
            done.append(path)
            for log in overtaken:
                log.end_of_data("finish")

    run = world.run(job_of(world, read), storage=HookedStorage(world.storage, hook))
    assert done
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == ids_of(GIVEN)


class NothingPublished(WrappedStorage):
    """A storage on which no batch is published, and which waits for a checkpoint before it fails."""

    def create(self, path: str, data: bytes) -> None:
        if b'"type": "Batch"' in data:
            wait_until(lambda: Journal(self.inner, "job").replay().last_completed > 0, "an empty checkpoint")
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="gone")
        self.inner.create(path, data)


def test_an_empty_checkpoint_does_not_prevent_recovery(world: World) -> None:
    """The job first ran in streaming mode and restarted from scratch in batch mode.

    The bug never produced the lost result again.
    """

    def job() -> Job:
        made = Job("anew")

        @made.source(bounded=True, chain=False)
        def history(read: DataFrameReader) -> DataFrame:
            return read.schema(IDS).parquet(world.path("history"))

        @made.transform(inputs=[history], chain=False)
        def clean(rows: DataFrame) -> DataFrame:
            return rows

        @made.transform(inputs=[clean], chain=False)
        def report(rows: DataFrame) -> DataFrame:
            return rows

        made.sink("out", report, FileSink(world.path("out")))
        return made

    expected = world.put_ids("history", 3, 2)
    first = world.run(job(), storage=NothingPublished(world.storage), mode="streaming", checkpoint_interval=0.1)
    assert first.status == "RESTARTING"
    assert world.state().last_completed > 0
    second = world.run(job(), storage=RefusedEntries(world.storage, "report", BATCH), mode="batch")
    assert second.of("anew")
    for path in results(world, "clean"):
        path.unlink()
    assert world.run(job(), mode="batch").status == "FINISHED"
    assert world.released_ids() == sorted(expected)


def with_more(world: World, read: SplitReader, operator: str) -> Job:
    job = job_of(world, read)
    job.sink("more", operator, FileSink(world.path("more")))
    return job


def test_an_added_sink_gets_results_that_are_produced_again(world: World) -> None:
    read = SplitReader()
    run_until_death(world, read)
    results(world, "clean")[0].unlink()
    run = world.run(with_more(world, read, "clean"))
    assert run.status == "FINISHED"
    assert world.released_ids("more") == ids_of(GIVEN)
    assert not [line for line in run.of("warning") if "gets no rows" in line["message"]]


def test_a_lost_log_with_its_end_in_the_journal_is_recovered_or_refused(world: World) -> None:
    """The bug handed out no splits to the subtask, which waited forever."""
    read = SplitReader()
    run_until_death(world, read)
    vertices = world.root / world.job_id / "vertices"
    shutil.rmtree(vertices / "clean")
    kept = world.base / "kept"
    shutil.copytree(vertices / "parts" / "0", kept)
    shutil.rmtree(vertices / "parts" / "0")
    with pytest.raises(SubtaskLogLostError, match=r"parts/0.* has no end"):
        world.run(job_of(world, read))
    shutil.copytree(kept, vertices / "parts" / "0")
    run = run_to_the_end(world, read)
    assert restarted(world) == {"clean/0": None}
    assert "clean/0 (its end is in the journal but not in its log)" in run.of("reconciled")[0]["message"]


def test_a_recovery_that_crashes_is_repeated(world: World) -> None:
    """The test tries every verb of the recovery, until the lost split is read again."""
    for at in range(1, 100):
        read, lost = SplitReader(), World(world.base / f"at-{at}")
        run_until_death(lost, read, "clean")
        file_of_split(lost, "part-2").unlink()
        read.asked.clear()
        with suppress(TransientError):
            lost.run(job_of(lost, read), storage=FaultyStorage(lost.storage, Fault(at)))
        is_over = "part-2" in read.asked
        run_to_the_end(lost, read)
        if is_over:
            break
    assert 5 < at < 99
