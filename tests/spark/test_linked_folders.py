"""Symbolic links below the folders that sources read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.errors import OverlappingFoldersError
from airflow_provider_ckpt.spark.preparation.own_output import LinkedFolder, linked_folders, refuse_links
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from tests.spark.harness import World

RECURSIVE = {"recursiveFileLookup": "true"}


def find_links(place: Path, **options: str) -> list[LinkedFolder]:
    return sorted(linked_folders(SourceReads("json", options, [str(place)])), key=lambda link: link.path)


def folders(base: Path, *names: str) -> None:
    for name in names:
        (base / name).mkdir(parents=True)


def link(base: Path, name: str, target: str) -> None:
    (base / name).symlink_to(base / target)


def test_links_are_found_as_spark_follows_them(tmp_path: Path) -> None:
    folders(tmp_path, "in/a", "in/day=1", "out/b", "far")
    (tmp_path / "in/a/file.json").write_text("")
    link(tmp_path, "in/a/file", "in/a/file.json")
    link(tmp_path, "in/a/gone", "nowhere")
    link(tmp_path, "in/a/_hidden", "out")
    link(tmp_path, "in/a/x", "out")
    link(tmp_path, "out/b/y", "far")
    link(tmp_path, "in/day=1/hour=2", "far")
    expected = [("in/a/x", "out"), ("in/a/x/b/y", "far"), ("in/day=1/hour=2", "far")]
    links = [(link.path, link.target) for link in find_links(tmp_path / "in", **RECURSIVE)]
    assert links == [(f"{tmp_path}/{path}", f"{tmp_path}/{target}") for path, target in expected]
    assert [folder.path for folder in find_links(tmp_path / "in")] == [f"{tmp_path}/in/day=1/hour=2"]
    assert [folder.path for folder in find_links(tmp_path / "i*", **RECURSIVE)] == [
        f"{tmp_path}/{path}" for path, _ in expected
    ]
    assert len(find_links(tmp_path / "{in,other}", **RECURSIVE)) == len(expected)
    assert list(linked_folders(SourceReads("json", RECURSIVE, ["s3a://bucket/in", "s3a://bucket/?/*"]))) == []


@pytest.mark.parametrize("target", ["in", "in/a", "."])
def test_a_link_to_a_parent_folder_loops(tmp_path: Path, target: str) -> None:
    folders(tmp_path, "in/a")
    link(tmp_path, "in/a/up", target)
    assert any(folder.loops for folder in find_links(tmp_path / "in", **RECURSIVE))


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("out", "would read its own output"),
        ("out/day=1", "would read its own output"),
        (".", "would read its own output"),
        ("root", "would read its own state"),
        ("root/orders", "would read its own state"),
        ("in", "leads back to a folder around it"),
        ("other", None),
        ("_ckpt-out", None),
        ("root/elsewhere", None),
    ],
)
def test_only_links_outside_the_jobs_input_output_and_state_are_allowed(
    tmp_path: Path, target: str, problem: str | None
) -> None:
    folders(tmp_path, "in/a", "out/day=1", "root/orders", "root/elsewhere", "other", "_ckpt-out")
    link(tmp_path, "in/a/x", target)
    job = Job("orders")
    live = job.source(uid="live")(lambda read: read)
    job.sink("out", live, FileSink(str(tmp_path / "out")))
    root = str(tmp_path / "root")
    reads = {"live": SourceReads("json", RECURSIVE, [str(tmp_path / "in")])}
    if problem is None:
        refuse_links(job, reads, open_storage(root), Location(root), "orders")
        return
    with pytest.raises(OverlappingFoldersError, match=problem) as refused:
        refuse_links(job, reads, open_storage(root), Location(root), "orders")
    assert f"'live' reads {tmp_path}/in/a/x (a link to " in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["out", "root", "in"])
def test_a_job_is_refused_before_anything_is_written(world: World, target: str) -> None:
    world.put_ids("in", 1, 2)
    Path(world.path("out")).mkdir(parents=True, exist_ok=True)
    world.root.mkdir(exist_ok=True)
    (Path(world.path("in")) / "x").symlink_to({"root": str(world.root)}.get(target, world.path(target)))
    job = Job("orders")

    @job.source
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema("id LONG, k LONG").option("recursiveFileLookup", True).parquet(world.path("in"))

    job.sink("out", live, FileSink(world.path("out")))
    with pytest.raises(OverlappingFoldersError, match="a link to"):
        world.run(job)
    assert world.everything_under_root() == []
