"""A root in the folder of a source: the job would read its own state."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.errors import OverlappingFoldersError
from airflow_provider_ckpt.spark.preparation.own_output import refuse_root_in_source
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.opening import open_storage
from tests.spark.harness import World

S3 = "s3://bucket/data"


def refuse(source: str, root: str, job_id: str = "orders") -> None:
    storage = open_storage("memory://any")
    storage.uri = root
    refuse_root_in_source({"live": SourceReads("json", paths=[source])}, storage, job_id)


@pytest.mark.parametrize(
    ("source", "root"),
    [
        ("/data", "file:///data"),
        ("/data", "file:///data/ckpt"),
        ("/data/", "file:///data/a/ckpt"),
        ("file:///data/x/..", "file:///data/ckpt"),
        ("/data/*", "file:///data/ckpt"),
        ("/data/*", "file:///data/_ckpt"),
        ("/data/{in,ckpt}", "file:///data/ckpt"),
        ("/data/*", "file:///data"),
        ("/data/*.json", "file:///data"),
        ("/data/*/*", "file:///data"),
        ("/data/orders", "file:///data"),
        ("/data/ord*/journal", "file:///data"),
        ("/data/*/*/*", "file:///data"),
        ("s3a://bucket/data/", f"{S3}/ckpt"),
        ("s3a://bucket/*", S3),
    ],
)
def test_a_root_in_the_folder_of_a_source_is_refused(source: str, root: str) -> None:
    with pytest.raises(OverlappingFoldersError, match="Give the root a folder outside of the source's"):
        refuse(source, root)


@pytest.mark.parametrize(
    ("source", "root"),
    [
        ("/data/in", "file:///data/ckpt"),
        ("/data/in", "file:///data"),
        ("/data/orders/in", "file:///data"),
        ("/data", "file:///data/_ckpt"),
        ("/data", "file:///data/.state/ckpt"),
        ("/data/in*", "file:///data/ckpt"),
        ("s3a://bucket/data", "s3://other/data"),
    ],
)
def test_a_root_outside_the_folders_of_sources_is_allowed(source: str, root: str) -> None:
    refuse(source, root)


def test_a_link_to_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "in").symlink_to(tmp_path / "root")
    with pytest.raises(OverlappingFoldersError, match="which overlaps with the root"):
        refuse(str(tmp_path / "in"), f"file://{tmp_path}/root")


@pytest.mark.parametrize(
    ("pattern", "recursive"), [("", True), ("/root", False), ("/*", False)], ids=["below", "equal", "matched"]
)
@pytest.mark.parametrize("bounded", [True, False])
def test_a_job_is_refused_before_anything_is_written(
    world: World, pattern: str, recursive: bool, bounded: bool
) -> None:
    world.put_ids("live", 1, 2)
    job = Job("orders")
    if pattern == "/root":
        world.put_ids("root", 1, 2)

    @job.source(bounded=bounded)
    def live(read: DataStreamReader) -> DataFrame:
        reader = read.schema("id LONG, k LONG").option("recursiveFileLookup", recursive)
        return reader.parquet(f"{world.base}{pattern}")

    job.sink("out", live, FileSink("/tmp/folders-never-written/out"))
    before = world.everything_under_root()
    with pytest.raises(OverlappingFoldersError, match="source 'live' reads"):
        world.run(job)
    assert world.everything_under_root() == before
