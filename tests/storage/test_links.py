"""Links below a local root, or below a table: they may lead to files of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.sink import SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.storage import posix
from airflow_provider_ckpt.storage.errors import ForeignRootError, StorageFailedError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import ROOT_MARKER, open_root, read_root
from airflow_provider_ckpt.storage.storage import Storage

SECRET = b'{"password": "t0psecret"}'


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Return a root with ``linked``, a link to a folder elsewhere, and ``job/private``, one to a file."""
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    (tmp_path / "elsewhere" / "private.json").write_bytes(SECRET)
    storage = open_root(open_storage(tmp_path / "root"))
    storage.create("job/own", b"own")
    (tmp_path / "root" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "job" / "private").symlink_to(tmp_path / "elsewhere" / "private.json")
    return storage


CALLS: dict[str, Callable[[Storage], Any]] = {
    "create": lambda storage: storage.create("linked/new", b"x"),
    "replace": lambda storage: storage.replace("linked/private.json", b"x"),
    "read": lambda storage: storage.read("linked/private.json"),
    "read a linked file": lambda storage: storage.read("job/private"),
    "read a part": lambda storage: storage.read_range("job/private", 0, 5),
    "exists": lambda storage: storage.exists("linked/private.json"),
    "size": lambda storage: storage.size("linked/private.json"),
    "list": lambda storage: storage.list("linked"),
    "list below": lambda storage: storage.list("linked/below"),
    "files": lambda storage: storage.files("linked"),
    "copy from": lambda storage: storage.copy("job/private", "job/copied"),
    "copy to": lambda storage: storage.copy("job/own", "linked/copied"),
    "copy all": lambda storage: storage.copy_all([("job/own", "job/a"), ("linked/private.json", "job/b")]),
    "move from": lambda storage: storage.move("linked/private.json", "job/moved"),
    "move a linked file": lambda storage: storage.move("job/private", "job/moved"),
    "move to": lambda storage: storage.move_all([("job/own", "linked/below/moved")]),
    "sync": lambda storage: storage.sync("linked"),
    "delete": lambda storage: storage.delete("linked/private.json"),
    "delete tree": lambda storage: storage.delete_tree("linked/below"),
    "temporary": lambda storage: storage.collect_temporary("linked", 0.0),
    "child": lambda storage: storage.child("linked").read("private.json"),
    "spark": lambda storage: storage.spark_uri("linked"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_link_below_a_root_is_not_followed(storage: Storage, tmp_path: Path, call: str) -> None:
    def content() -> dict[str, bytes]:
        files = [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in files}

    before = content()
    with pytest.raises(StorageFailedError, match=r"is a link, and links below \S+/root are not followed"):
        CALLS[call](storage)
    assert content() == before
    assert (tmp_path / "elsewhere" / "below").is_dir()
    assert storage.read("job/own") == b"own"


def test_a_folder_of_requests_that_is_a_link_is_not_read(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "root" / "job" / "requests").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailedError, match="are not followed, because they may lead"):
        pending_requests(storage, "job", 1, ())


def test_deleting_a_link_deletes_only_its_name(storage: Storage, tmp_path: Path) -> None:
    for path, delete in {"linked": storage.delete_tree, "job/private": storage.delete}.items():
        delete(path)
        assert not (tmp_path / "root" / path).is_symlink()
    assert (tmp_path / "elsewhere" / "private.json").read_bytes() == SECRET


def test_the_root_and_its_parents_may_be_links(tmp_path: Path) -> None:
    (tmp_path / "disk" / "ckpt").mkdir(parents=True)
    (tmp_path / "above").symlink_to(tmp_path / "disk")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "ckpt")
    storage = open_root(open_storage(tmp_path / "link"))
    storage.create("a/b", b"x")
    child = open_storage(tmp_path / "above" / "ckpt").child("a")
    assert child.read("b") == b"x"
    assert read_root(open_storage(tmp_path / "above" / "ckpt")).list("a") == ["b"]


def test_a_link_created_after_the_check_is_not_opened(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(posix, "is_link", lambda path: False)
        with pytest.raises(StorageFailedError, match="are not followed, because they may lead") as refused:
            storage.read("job/private")
    assert "t0psecret" not in str(refused.value)


def test_a_link_under_a_temporary_name_is_not_written_to(storage: Storage, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "private.json"
    (tmp_path / "root" / "taken").symlink_to(target)
    with pytest.raises(FileExistsError):
        posix.write_durably(str(tmp_path / "root" / "taken"), b"x")
    assert target.read_bytes() == SECRET


@pytest.mark.parametrize("is_link", [True, False], ids=["a link", "a file"])
def test_the_content_of_a_foreign_marker_is_not_shown(tmp_path: Path, is_link: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "private").write_bytes(SECRET)
    if is_link:
        (root / ROOT_MARKER).symlink_to(tmp_path / "private")
    else:
        (root / ROOT_MARKER).write_bytes(SECRET)
    words = "is a link" if is_link else "another program"
    with pytest.raises(StorageFailedError if is_link else ForeignRootError, match=words) as refused:
        read_root(open_storage(root))
    error: BaseException | None = refused.value
    while error is not None:
        assert "t0psecret" not in f"{error!r} {error}"
        assert "password" not in f"{error!r} {error}"
        error = error.__cause__


class Released:
    """A partitioned table, and a batch that is staged for it."""

    def __init__(self, table: Path) -> None:
        sink = FileSink(str(table), format="json", partition_by=["day"])
        context = SinkContext("orders", "lake")
        folders = FileFolders.open(Location(str(table)))
        files = StagedFiles(folders, context)
        request = StageRequest("0001-a1", 1, "n1", counted)
        folders.books.create(f"{files.place(request.id)}/day=1/part-00000.json", b"{}")
        self.handle = files.handle(request, 1, 0, [("day=1/part-00000.json", 2)])
        self.bound = sink.bind(context)

    def release(self) -> None:
        self.bound.release([self.handle], 1)


def test_a_release_does_not_write_through_a_linked_partition_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake" / "orders").mkdir(parents=True)
    (tmp_path / "lake" / "orders" / "day=1").symlink_to(tmp_path / "elsewhere")
    batch = Released(tmp_path / "lake" / "orders")
    with pytest.raises(StorageFailedError, match=r"orders/day=1 is a link"):
        batch.release()
    assert os.listdir(tmp_path / "elsewhere") == []
    assert batch.bound.last_released() == 0


def test_the_folder_of_a_table_may_be_a_link(tmp_path: Path) -> None:
    """Rows are staged next to the folder that the link leads to, so both names are one table."""
    (tmp_path / "disk" / "orders").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "disk" / "orders")
    Released(tmp_path / "lake").release()
    (released,) = (tmp_path / "disk" / "orders" / "day=1").iterdir()
    assert released.read_bytes() == b"{}"
    assert (tmp_path / "disk" / "_ckpt-orders").is_dir()
    assert not (tmp_path / "_ckpt-lake").exists()
    linked, own = (
        FileSink(str(path)).bind(SinkContext("orders", "lake")) for path in (tmp_path / "lake", released.parents[1])
    )
    assert linked.last_released() == own.last_released() == 1


def test_a_table_that_links_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders").symlink_to(tmp_path / "orders")
    with pytest.raises(StorageFailedError):
        FileSink(str(tmp_path / "orders")).bind(SinkContext("orders", "lake")).check_target()
