"""Sinks of one job whose folders overlap: refused at submission, before any data is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.sinks.sink import Sink
from airflow_provider_ckpt.storage.location import Location
from tests.job.jobs import Nowhere, read


def job(*sinks: Sink) -> Job:
    made = Job("sketch")
    live = made.source(uid="live")(read)
    for number, sink in enumerate(sinks):
        made.sink(f"s{number}", live, sink)
    return made


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("/out", "/out/b"),
        ("/out", "/out/day=1/b"),
        ("/out", "/out/_day=1"),
        ("/out/", "file:///out/b/"),
        ("/out/a/..", "/out//b"),
        ("out", "./out/b"),
        ("s3://lake/out", "s3a://lake/out/b"),
        ("s3n://lake/out/", "s3://lake/out/b"),
        ("gs://lake/out", "gcs://lake/out/b"),
        ("abfs://c@lake/out", "abfss://c@lake/out/b"),
        ("file:/out", "FILE:///out/b"),
        ("File:/out", "/out/b"),
        ("/out", "file://localhost/out/b"),
        ("file://LocalHost/out/", "/out/a/../b"),
        ("hdfs://name/out", "hdfs://name:8020/out/b"),
        ("hdfs://Name:8020/out/", "HDFS://name/out/b"),
        ("webhdfs://name/out", "webhdfs://name:9870/out/b"),
        ("abfs://c@ACC.dfs.core.windows.net/out", "abfss://c@acc.dfs.core.windows.net/out/b"),
        ("S3://lake/out", "s3a://lake/out/b"),
        ("/out", "/out/_ckpt/b"),
        ("/out", "/out/_ckpt"),
        ("/out", "/out/_spark_metadata/b"),
    ],
)
def test_a_sink_inside_the_folder_of_another_is_refused(outer: str, inner: str, turned: bool) -> None:
    sinks = [FileSink(outer), FileSink(inner)]
    with pytest.raises(InvalidJobError, match="a reader of that folder would read the") as caught:
        job(*(reversed(sinks) if turned else sinks)).validate()
    data = caught.value.data
    assert (data["outer"], data["inner"]) == (("s1", "s0") if turned else ("s0", "s1"))
    assert (data["outer_folder"], data["inner_folder"]) == (outer, inner)
    assert "test_sink_folders.py" in str(caught.value)


def test_a_link_to_a_sinks_folder_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", tmp_path / "link")
    with pytest.raises(InvalidJobError, match="a reader of that folder would read the"):
        job(FileSink(str(tmp_path / "out")), FileSink(str(tmp_path / "link" / "b"))).validate()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("/out/a", "/out/b"),
        ("/out", "/output"),
        ("s3://lake/out", "s3://pond/out/b"),
        ("s3://lake/out", "gs://lake/out/b"),
        ("s3://lake/out", "/lake/out/b"),
        ("s3://lake/out", "s3://Lake/out/b"),
        ("hdfs://name/out", "hdfs://name:9000/out/b"),
        ("hdfs://name/out", "hdfs://other/out/b"),
        ("file://localhost2/out", "/out/b"),
        ("/out", "/out/_rejected"),
        ("/out", "/out/.rejected/b"),
    ],
)
def test_separate_and_hidden_folders_are_allowed(first: str, second: str) -> None:
    job(FileSink(first), FileSink(second)).validate()


def test_the_refusal_hides_a_secret_of_a_folder() -> None:
    @dataclass(frozen=True)
    class Writes(Nowhere):
        uri: str = "s3://lake/out/b?token=hunter2"

        def spark_folders(self, storage_options: Mapping[str, Any]) -> Sequence[Location]:
            return [Location(self.uri)]

    with pytest.raises(InvalidJobError, match="a reader of that folder would read the") as caught:
        job(FileSink("s3://lake/out"), Writes()).validate()
    assert "hunter2" not in f"{caught.value} {caught.value.data}"


# ---- one folder


@pytest.mark.parametrize(
    ("given", "differ"),
    [
        ({"partition_by": ["day"]}, "partition_by"),
        ({"format": "json"}, "format"),
        ({"format": "csv", "options": {"header": True}}, "format, option.header"),
    ],
)
def test_sinks_that_write_differently_to_one_folder_are_refused(given: Mapping[str, Any], differ: str) -> None:
    for sinks in ([FileSink("/out"), FileSink("/a/../out/", **given)], [FileSink("/out", **given), FileSink("/out")]):
        with pytest.raises(InvalidJobError, match="differ in") as caught:
            job(*sinks).validate()
        assert caught.value.data["differ"] == differ


def test_sinks_that_write_equally_may_share_a_folder() -> None:
    options = {"compression": "zstd"}
    job(FileSink("/out"), FileSink("/a/../out/", mode="append", options=options)).validate()


@dataclass(frozen=True)
class Staging(Nowhere):
    """Sink that has Spark write to a folder before it moves the rows to its table."""

    folder: str = "/staging"

    def spark_folders(self, storage_options: Mapping[str, Any]) -> Sequence[Location]:
        return [Location(self.folder)]


def test_a_file_sink_cannot_share_the_folder_of_another_kind_of_sink() -> None:
    job(Staging(), Staging()).validate()
    for sinks in ([FileSink("/staging"), Staging()], [Staging(), FileSink("/staging")]):
        with pytest.raises(InvalidJobError, match="differ in type"):
            job(*sinks).validate()
