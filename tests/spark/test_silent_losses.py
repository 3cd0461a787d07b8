"""Cases that lost, repeated or held back rows silently. Now each of them is refused or reported by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.sinks.errors import TargetRefusedError
from airflow_provider_ckpt.spark.errors import OverlappingFoldersError
from airflow_provider_ckpt.spark.preparation.own_output import refuse_own_output
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.layout import partition_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.subtasklog.records import Batch
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.jobs import IDS, bounded, mixed, windows


@pytest.mark.parametrize(("first", "second"), [("5", "2"), ("2", "5")])
def test_state_keeps_its_number_of_partitions_in_later_runs(world: World, first: str, second: str) -> None:
    """Rows look up their state in the partition that the number gives, so another number would not find them."""
    expected = world.put_ids("history", 6, 10) | world.put_ids("live", 2, 10, 1000)
    read = lambda: world.state().last_completed > 0 and world.read_up_to("counts", "history") >= 2  # noqa: E731
    conf = {"spark.sql.shuffle.partitions": first}
    assert world.run(windows(world), world.ask("stop", read), conf=conf).status == "STOPPED"
    all_read = lambda: world.state().last_completed > 0 and world.read_up_to("counts", "live") >= 1  # noqa: E731
    run = world.run(windows(world), world.ask("drain", all_read), conf={"spark.sql.shuffle.partitions": second})
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sum(row["n"] for row in world.released()) == len(expected)
    (warning,) = [line["message"] for line in run.of("warning") if "shuffle.partitions" in line["message"]]
    assert f"the state of counts has {first} partitions, and keeps that number" in warning
    definition = world.state().definition
    assert definition is not None
    assert definition.vertices["counts"].shuffle_partitions == int(first)


def test_a_query_without_state_resumes_with_another_number_of_partitions(world: World) -> None:
    expected = world.put_ids("history", 3, 2) | world.put_ids("live", 1, 2, 1000)
    stop = world.ask("stop", lambda: world.released_count() > 0)
    assert world.run(mixed(world), stop, conf={"spark.sql.shuffle.partitions": "5"}).status == "STOPPED"
    run = world.run(mixed(world), world.drain_at(len(expected)), conf={"spark.sql.shuffle.partitions": "2"})
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


# ---- files of result partitions


def published_files(world: World) -> list[Path]:
    batches = [record for _, record in world.records("history") if isinstance(record, Batch)]
    return [
        world.root / partition_path(world.job_id, "history", 0) / file.path for batch in batches for file in batch.files
    ]


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [emptied, cut, removed])
@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_a_damaged_partition_file_fails_the_run_and_can_be_recovered(
    world: World, mode: str, harm: Callable[[Path], None]
) -> None:
    """Spark takes an empty file for a file without rows."""
    expected = world.put_ids("history", 3, 2)
    kept: dict[Path, bytes] = {}
    once = Lock()

    def harm_the_first(verb: str, path: str) -> None:
        """Damage the first published file.

        This happens before the consumer's feed names the file (streaming), or before the end of data (batch). The
        driver's loop writes the feed, and another thread writes the log. While one thread does the damage, the lock
        keeps the other out.
        """
        if verb == "create" and "/history/0/" in path:
            with once:
                for damaged in published_files(world)[: 1 - len(kept)]:
                    kept[damaged] = damaged.read_bytes()
                    harm(damaged)

    storage = HookedStorage(world.storage, harm_the_first)
    run = world.run(bounded(world, chain=False), storage=storage, mode=mode)
    assert run.status == ("RESTARTING" if mode == "batch" else "FAILED"), run
    message = "are gone" if (mode, harm) == ("streaming", removed) else "was published with"
    assert message in str(run.cause)
    assert world.released_ids() == []
    [(damaged, data)] = kept.items()
    if mode == "streaming":
        damaged.write_bytes(data)
    again = world.run(bounded(world, chain=False), mode=mode, resume_failed=mode == "streaming")
    assert (again.status, again.cause) == ("FINISHED", None)
    assert world.released_ids() == sorted(expected)


# ---- a job that reads its own output


def reading(path: str, sink: str) -> Job:
    job = Job("circle")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(path)

    job.sink("out", live, FileSink(sink))
    return job


@pytest.mark.parametrize(
    ("source", "sink"),
    [("live/*", "live/out"), ("live", "live/k=1"), ("live", "live/out"), ("live/day=1", "live"), ("live", "live")],
)
def test_a_sink_in_the_folder_of_a_source_is_refused(world: World, source: str, sink: str) -> None:
    world.put_ids("live", 1, 2)
    world.put_ids("live/day=1", 1, 2)
    with pytest.raises((OverlappingFoldersError, TargetRefusedError)):  # files of others are found before Spark starts
        world.run(reading(f"{world.base}/{source}", f"{world.base}/{sink}"))
    assert world.everything_under_root() == []
    assert not (world.base / "live" / "out").exists()


@pytest.mark.parametrize(
    ("source", "sink", "meet"),
    [
        ("s3a://b/in/*", "s3://b/in/out", True),
        ("s3a://b/in", "s3://other/in/out", False),
        ("s3a://lake/in", "/lake/in/out", False),
        ("/lake/{in,out}", "/lake/out", True),
        ("/lake/{in,also}", "/lake/out", False),
        ("/lake/{in,{a,ou}t}", "/lake/out", True),
        ("/lake/{in,{a,ou}t}", "/lake/int", False),
        ("/{data/in,lake/out}", "/lake/out", True),
        ("/lake/*/events", "/lake/out", False),
        ("/lake/*/*.parquet", "/lake/out", True),
        ("/lake/*/day=*", "/lake/out", True),
        ("/lake/*/*=*", "/lake/out", True),
        ("/lake/input", "/lake/in", False),
        ("file:///lake/in", "/lake/in/out", True),
    ],
)
def test_a_source_pattern_that_matches_the_output_is_refused(source: str, sink: str, meet: bool) -> None:
    job = reading(source, sink)
    reads = {"live": SourceReads("parquet", paths=[source])}
    if meet:
        with pytest.raises(OverlappingFoldersError, match="the job would read its own output"):
            refuse_own_output(job, reads, Location("root"))
    else:
        refuse_own_output(job, reads, Location("root"))


def test_credentials_in_a_path_do_not_prevent_the_check_and_stay_hidden() -> None:
    job = reading("s3a://key:hunter2@b/in/*", "s3://b/in/out")
    with pytest.raises(OverlappingFoldersError, match="the job would read its own output") as caught:
        refuse_own_output(job, {"live": SourceReads("parquet", paths=["s3a://key:hunter2@b/in/*"])}, Location("root"))
    assert "hunter2" not in f"{caught.value} {caught.value.data}"


class TwoFolders(FileSink):
    """A sink that lets Spark write to another folder, too."""

    def spark_folders(self, storage_options: Mapping[str, Any]) -> list[Location]:
        return [*super().spark_folders(storage_options), Location("/elsewhere")]


def test_every_folder_of_a_sink_is_checked() -> None:
    job = Job("two")
    job.sink("out", job.source(uid="live")(lambda read: read), TwoFolders("/lake/out"))
    for path in ("/lake/out", "/elsewhere"):
        with pytest.raises(OverlappingFoldersError, match="the job would read its own output"):
            refuse_own_output(job, {"live": SourceReads("parquet", paths=[path])}, Location("root"))


# ---- jobs that would run nothing or read nothing


def test_a_finished_job_with_swapped_inputs_is_refused(world: World) -> None:
    world.put_ids("history", 2, 2)

    def job(of_raw: str, of_out: str) -> Job:
        job = Job("swapped")

        @job.source(bounded=True, max_files_per_trigger=1)
        def history(read: DataStreamReader) -> DataFrame:
            return read.schema(IDS).parquet(world.path("history"))

        @job.transform(inputs=[history])
        def doubled(rows: DataFrame) -> DataFrame:
            return rows.withColumn("twice", F.col("id") * 2)

        job.sink("raw", of_raw, FileSink(world.path("raw")))
        job.sink("out", of_out, FileSink(world.path("out")))
        return job

    assert world.run(job("history", "doubled")).status == "FINISHED"
    assert world.run(job("history", "doubled")).status == "FINISHED"
    with pytest.raises(DefinitionChangedError, match=r"another inputs of operators.*FINISHED"):
        world.run(job("doubled", "history"))


def test_a_sink_added_to_a_finished_vertex_is_warned_of(world: World) -> None:
    expected = world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000)
    over = lambda: "history" in world.state().finished_operators() and world.released_count() > 0  # noqa: E731
    assert world.run(mixed(world, chain=False), world.ask("stop", over)).status == "STOPPED"
    job = mixed(world, chain=False)
    job.sink("raw", "history", FileSink(world.path("raw")))
    run = world.run(job, world.drain_at(len(expected)))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert [line["message"] for line in run.of("warning") if "sink raw is new" in line["message"]]
