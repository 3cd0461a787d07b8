"""History and a live source on one folder.

Existing files are history, later files are live, and each row is released once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.errors import BadOperatorOptionError
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_files
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.query.sources.shared_files import metadata_path, only_files, without_files
from tests.spark.faults import HookedStorage
from tests.spark.harness import World
from tests.spark.test_dry_run import check

IDS = "id LONG, k LONG"
NAMES = (
    "plain",
    "a b",
    "a%20b",
    "ümläut",
    "plus+",
    "hash#",
    "equal=",
    "amp&",
    "tilde~",
    "quote'\"",
    "nbsp\u00a0",
    "日本",
    "a|b",
    "<>^`",
    "zwj\u200d",
)


def job_of(
    world: World,
    history: str = "in",
    live: str = "in",
    *,
    after: bool = True,
    reads_again: bool = False,
    recursive: bool = False,
    chain: bool = True,
    filters: tuple[str, str] = ("true", "true"),
) -> Job:
    job = Job("orders")

    def rows(read: DataStreamReader, folder: str, keep: str) -> DataFrame:
        reader = read.schema(IDS).option("recursiveFileLookup", recursive).option("maxFilesPerTrigger", 2)
        return reader.parquet(f"{world.base}/{folder}").where(keep).select("id")

    @job.source(bounded=True, uid="history", chain=chain)
    def before(read: DataStreamReader) -> DataFrame:
        return rows(read, history, filters[0])

    @job.source(uid="live", after=before if after else None, reads_again=reads_again)
    def later(read: DataStreamReader) -> DataFrame:
        return rows(read, live, filters[1])

    @job.transform(inputs=[before, later], uid="all")
    def both(rows: DataFrame) -> DataFrame:
        return rows.select("id")

    job.sink("out", both, FileSink(world.path("out")))
    return job


def put(world: World, *ids: int, folder: str = "in") -> list[int]:
    for number in ids:
        world.put(folder, NAMES[number % len(NAMES)] + f"-{number}", [{"id": number, "k": 0}])
    return [*ids]


# ---- each row once


def test_a_file_has_the_path_of_sparks_metadata_column(world: World, spark: SparkSession) -> None:
    put(world, *range(len(NAMES)), folder="in/day=a b%c")
    frame = spark.read.parquet(world.path("in"))
    files = list_files(spark, SourceReads("parquet", {}, [world.path("in")]))
    paths = {row[0] for row in frame.select("_metadata.file_path").distinct().collect()}
    assert {metadata_path(file) for file in files} == paths
    assert metadata_path("s3a://bucket/a b/ü#") == "s3a://bucket/a%20b/ü%23"


def test_excluded_files_are_not_opened(world: World, spark: SparkSession) -> None:
    put(world, 1, 2)
    broken = Path(world.path("in")) / "broken.parquet"
    broken.write_text("no Parquet")
    frame = spark.read.schema(IDS).parquet(world.path("in"))
    assert sorted(row.id for row in without_files(frame, [f"file://{broken}"]).collect()) == [1, 2]
    others = [f"file://{path}" for path in broken.parent.glob("*-*.parquet")]
    assert sorted(row.id for row in only_files(frame, others).collect()) == [1, 2]
    assert only_files(frame, []).collect() == []


@pytest.mark.parametrize("chain", [True, False])
def test_each_row_is_released_once_over_stops(world: World, chain: bool) -> None:
    expected = put(world, *range(20))
    stopped = world.run(job_of(world, chain=chain), world.ask("stop", lambda: world.released_count() >= 4))
    assert stopped.status == "STOPPED"
    expected += put(world, *range(20, 26))
    world.run(job_of(world, chain=chain), world.ask("stop", lambda: world.released_count() >= 26))
    expected += put(world, *range(26, 30))
    run = world.run(job_of(world, chain=chain), world.drain_at(30))
    assert (run.status, world.released_ids()) == ("FINISHED", expected)
    assert world.state().late_files == []


def test_a_file_that_arrives_after_the_listing_is_live(world: World) -> None:
    expected = put(world, *range(6))
    came: list[int] = []

    def hook(verb: str, path: str) -> None:
        if verb == "create" and "/frozen/" in path and not came:  # listed, but not recorded
            came.extend(put(world, 100, 101))
        if verb == "replace" and "/prepared/" in path and len(came) == 2:  # the first batch
            came.extend(put(world, 102))

    run = world.run(job_of(world), world.drain_at(9), storage=HookedStorage(world.storage, hook))
    assert (run.status, world.released_ids()) == ("FINISHED", [*expected, 100, 101, 102])
    assert len(came) == 3


@pytest.mark.parametrize(
    ("history", "live", "recursive"),
    [("in/day=*", "in", False), ("in", "in", True), ("in/day=1", "in/*", False), ("in/*/*.parquet", "in", False)],
)
def test_partly_overlapping_folders_are_read_once(world: World, history: str, live: str, recursive: bool) -> None:
    expected = put(world, 0, 1, folder="in/day=1")
    expected += put(world, 2, folder="in/day=2")
    stopped = world.run(
        job_of(world, history, live, recursive=recursive), world.ask("stop", lambda: world.released_count() >= 3)
    )
    assert (stopped.status, world.released_ids()) == ("STOPPED", expected)
    expected += put(world, 3, folder="in/day=2")
    run = world.run(job_of(world, history, live, recursive=recursive), world.drain_at(4))
    assert (run.status, world.released_ids()) == ("FINISHED", expected)


# ---- refused, with advice


@pytest.mark.parametrize(("history", "live"), [("in", "in"), ("in", "in/"), ("in/*", "in"), ("in/day=1", "in")])
def test_a_union_of_sources_that_share_files_is_refused(world: World, history: str, live: str) -> None:
    put(world, 0, folder="in/day=1")
    with pytest.raises(UnfitSourceError, match="each row would come twice") as refused:
        world.run(job_of(world, history, live, after=False))
    for part in ("'history' and 'live'", "'all' unites", "after=history", "reads_again=True"):
        assert part in str(refused.value)
    assert world.everything_under_root() == []


def test_two_sinks_in_one_folder_are_a_union(world: World) -> None:
    put(world, *range(4))
    job = Job("orders")
    for uid, bounded in (("history", True), ("live", False)):
        rows = job.source(uid=uid, bounded=bounded)(lambda read: read.schema(IDS).parquet(world.path("in")))
        job.sink(f"of_{uid}", rows, FileSink(world.path("out")))
    with pytest.raises(UnfitSourceError, match="the folder of sinks 'of_history' and 'of_live' unites their rows"):
        world.run(job)


def test_sources_with_disjoint_filters_may_share_files(world: World) -> None:
    expected = put(world, *range(4))
    job = job_of(world, after=False, reads_again=True, filters=("id < 2", "id >= 2"))
    run = world.run(job, world.drain_at(4))
    assert (run.status, world.released_ids()) == ("FINISHED", expected)


def test_sources_without_a_common_consumer_may_share_files(world: World) -> None:
    put(world, *range(4))
    job = Job("orders")
    for uid, bounded in (("history", True), ("live", False)):
        rows = job.source(uid=uid, bounded=bounded)(lambda read: read.schema(IDS).parquet(world.path("in")))
        job.sink(f"of_{uid}", rows, FileSink(world.path(f"of_{uid}")))
    run = world.run(job, world.drain_at(4, "of_history", "of_live"))
    assert run.status == "FINISHED"


def test_a_check_reports_the_division_of_files(world: World) -> None:
    put(world, 0)
    notes = check(world, job_of(world)).notes
    assert notes == (
        "source live: it leaves out the files of history, that is, the files that exist when the job first starts",
    )


# ---- the option


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"after": "nothing"}, "a bounded source of files; the job has history"),
        ({"after": "live"}, "a bounded source of files; the job has history"),
        ({"after": 7}, "a bounded source of the job, or its uid"),
        ({"after": "history", "bounded": True}, "left out: a bounded source reads all files"),
        ({"after": "history", "reads_again": True}, "left out: reads_again=True reads all files"),
        ({"reads_again": "yes"}, "True or False"),
    ],
)
def test_a_wrong_value_of_after_is_refused(given: dict[str, Any], message: str) -> None:
    job = Job("orders")
    history: Callable[..., Any] = job.source(uid="history", bounded=True)(lambda read: read)
    with pytest.raises(BadOperatorOptionError, match=message):
        live = job.source(uid="live", **given)(lambda read: read)
        job.sink("a", history, FileSink("/a"))  # type: ignore[arg-type]
        job.sink("b", live, FileSink("/b"))
        job.validate()


def test_after_may_name_a_source_defined_later(tmp_path: Path) -> None:
    job = Job("orders")
    live = job.source(uid="live", after="history")(lambda read: read)
    history = job.source(uid="history", bounded=True)(lambda read: read)
    job.sink("a", history, FileSink("/a"))
    job.sink("b", live, FileSink("/b"))
    job.validate()
