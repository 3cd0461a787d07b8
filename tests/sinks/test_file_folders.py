"""The folders of a file sink: the table's, which holds released files only, and the one next to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, TargetRefusedError
from airflow_provider_ckpt.sinks.file.file_folders import Places, places_of
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import FoldersApartError, StorageReadOnlyError
from airflow_provider_ckpt.storage.opening import open_storage
from tests.sinks.lake import Lake
from tests.support.books import books


@pytest.mark.parametrize(
    ("path", "parent", "target"),
    [
        ("/lake/revenue", "file:///lake", "revenue"),
        ("file:///lake/x/../revenue/", "file:///lake", "revenue"),
        ("/revenue", "file:///", "revenue"),
        ("/lake/revenue/day=1", "file:///lake", "revenue/day=1"),
        ("/lake/revenue/day=1/hour=2", "file:///lake", "revenue/day=1/hour=2"),
        ("/lake/day=1/revenue", "file:///lake/day=1", "revenue"),
        ("s3a://bucket/revenue", "s3://bucket", "revenue"),
        ("s3://bucket/a/b c/day=1", "s3://bucket/a", "b c/day=1"),
        ("memory://revenue", "memory://", "revenue"),
    ],
)
def test_the_folders_of_a_path(path: str, parent: str, target: str) -> None:
    assert places_of(path) == Places(parent, target, f"_ckpt-{target}")


@pytest.mark.parametrize("path", ["/", "s3://bucket", "s3://bucket/day=1", "/day=1"])
def test_a_path_without_a_parent_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidSinkError, match="Give a folder below, such as"):
        FileSink(path).validate()


@pytest.mark.parametrize("path", ["/lake/_ckpt-revenue", "/lake/_ckpt-revenue/day=1", "s3://bucket/_ckpt-a/b"])
def test_a_path_in_a_staging_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidSinkError, match="hold what other sinks have staged"):
        FileSink(path).validate()


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", ["revenue", "revenue/day=1"])
def test_the_table_folder_holds_only_released_files(tmp_path: Path, path: str) -> None:
    lake = Lake(tmp_path / path)
    sink = lake.new("orders", "errorifexists")
    assert everything(tmp_path / "revenue") == []
    handle = lake.staged("orders", 1, "one", "two")
    assert everything(tmp_path / "revenue") == []
    sink.release([handle], 1)
    lake.staged("orders", 2, "three")
    released = [str(Path(path, file["target"]).relative_to("revenue")) for file in handle["files"]]
    assert everything(tmp_path / "revenue") == sorted(released)
    assert sorted(os.listdir(tmp_path)) == ["_ckpt-revenue", "revenue"]
    lake.new("orders", "errorifexists")
    assert everything(tmp_path / "revenue") == sorted(released)


# ---- pairs of folders that are refused


def bound(path: Path, **given: Any) -> Any:
    return FileSink(str(path), **given).bind(SinkContext("orders", "lake"))


def test_two_file_systems_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, stat = tmp_path / "table", os.stat
    table.mkdir()

    def elsewhere(path: Any, **given: Any) -> Any:
        result = stat(path, **given)
        if str(path) != str(table):
            return result
        return os.stat_result((*result[:2], result.st_dev + 1, *result[3:10]))

    monkeypatch.setattr(os, "stat", elsewhere)
    with pytest.raises(FoldersApartError, match=rf"{table} is on another file system .* such as file://{table}/orders"):
        bound(table).check_target()
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["table"]


def test_an_undetectable_mount_is_found_by_a_trial_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may be mounted from the same file system, as Kubernetes does it. Files cannot be moved there either."""

    def apart(origin: str, goal: str) -> None:
        raise OSError(18, "Invalid cross-device link", origin, None, goal)

    monkeypatch.setattr(os, "rename", apart)
    with pytest.raises(FoldersApartError):
        bound(tmp_path / "table").prepare()
    assert everything(tmp_path) == []
    assert os.listdir(books(tmp_path / "table")) == []


def test_the_trial_move_puts_no_file_into_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, seen, rename = Lake(tmp_path / "table"), [], os.rename
    lake.release("orders", "row")

    def look(origin: str, goal: str) -> None:
        rename(origin, goal)
        seen.append(everything(tmp_path / "table"))

    monkeypatch.setattr(os, "rename", look)
    lake.bind("orders").prepare()
    assert [len(files) for files in seen] == [1]
    assert len(os.listdir(tmp_path / "table")) == 1


def test_the_next_start_deletes_a_left_probe_in_an_object_store() -> None:
    lake = Lake("memory://bucket-of-probes/table")
    lake.storage.create(".probe", b"1")
    lake.bind("orders").prepare()
    assert not lake.storage.exists(".probe")


def test_a_read_only_parent_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))  # root may write everywhere
    with pytest.raises(StorageReadOnlyError, match="_ckpt-table"):
        bound(tmp_path / "table").check_target()


# ---- one folder of the pair was deleted


def test_a_table_deleted_without_its_records_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.release("orders", "row")
    open_storage(tmp_path).delete_tree("table")
    for job in ("orders", "visits"):
        with pytest.raises(TargetRefusedError, match=rf"delete file://{books(tmp_path / 'table')}, too") as refused:
            lake.bind(job).check_target()
        assert isinstance(refused.value, InvalidInputError)
    assert lake.bind("orders").last_released() == 0
    open_storage(tmp_path).delete_tree("_ckpt-table")
    lake.release("orders", "again")
    assert lake.named() == lake.listed() == ["again"]


def test_a_table_without_its_records_counts_as_foreign_data(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "table")
    lake.release("orders", "row")
    open_storage(tmp_path).delete_tree("_ckpt-table")
    with pytest.raises(TargetRefusedError, match="data file"):
        lake.bind("orders", "errorifexists").check_target()
