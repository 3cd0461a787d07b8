"""The folders that the cause of a failure names when a disk is full."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.task.crashes import with_full_disks
from airflow_provider_ckpt.storage.opening import open_storage

FULL = "the query of vertex 'v' failed: java.io.IOException: No space left on device"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a stand-in for a run's context: its root, its sinks and Spark's settings."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    job = Job("orders")

    @job.source(bounded=True)
    def history(read: Any) -> Any: ...

    job.sink("out", history, FileSink(str(tmp_path / "out")))
    job.sink("far", history, FileSink("s3://lake/out"))
    conf = {"spark.local.dir": f"{tmp_path}/local1,{tmp_path}/local2"}
    spark = SimpleNamespace(conf=conf)
    return SimpleNamespace(storage=open_storage(str(tmp_path / "root")), job=job, spark=spark)


@pytest.fixture
def fill_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes the disk of a folder full."""

    def make(name: str) -> None:
        path = tmp_path / name
        path.mkdir()
        usage = shutil.disk_usage

        def less(folder: str) -> Any:
            return usage(folder)._replace(free=4096) if folder == str(path) else usage(folder)

        monkeypatch.setattr(shutil, "disk_usage", less)

    return make


@pytest.mark.parametrize("name", ["root", "out", "local1", "local2"])
def test_the_folder_on_a_full_disk_is_named(
    context: Any, fill_disk: Callable[[str], None], tmp_path: Path, name: str
) -> None:
    fill_disk(name)
    assert with_full_disks(FULL, context) == f"{FULL}; no room is left in {tmp_path}/{name}"


def test_several_folders_are_named(context: Any, fill_disk: Callable[[str], None], tmp_path: Path) -> None:
    fill_disk("out")
    fill_disk("local2")
    assert with_full_disks(FULL, context) == f"{FULL}; no room is left in {tmp_path}/out, {tmp_path}/local2"


@pytest.mark.parametrize("setting", ["{0}/local2, {0}/local1", "{0}/local2,", "tmp-none,{0}/local2"])
def test_folders_of_spark_may_be_relative_or_empty(
    context: Any, fill_disk: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """Spark takes a name that begins with a space for a relative one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", setting.format(tmp_path))
    fill_disk("local2")
    assert with_full_disks(FULL, context) == f"{FULL}; no room is left in {tmp_path}/local2"


def test_a_disk_with_free_space_is_not_named(context: Any) -> None:
    assert with_full_disks(FULL, context) == FULL


def test_other_failures_do_not_name_disks(context: Any, fill_disk: Callable[[str], None]) -> None:
    fill_disk("root")
    assert with_full_disks("ValueError: no", context) == "ValueError: no"
