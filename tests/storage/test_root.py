"""Opening of storages and checkpoint roots, and the layout below a root."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.storage import layout
from airflow_provider_ckpt.storage.errors import (
    ForeignRootError,
    InvalidJobIdError,
    InvalidPathError,
    InvalidStorageOptionsError,
    InvalidStorageUriError,
    MalformedDocumentError,
    NewerFormatError,
    NoRootError,
    RootRefusedError,
    StorageDeniedError,
    StorageTransientError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import ROOT_MARKER, open_root, read_root
from airflow_provider_ckpt.storage.storage import Storage, Storages
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.support.checksum import without_checksum
from tests.support.s3_server import s3_server

GOLDEN = Path(__file__).parent.parent / "golden" / "root-v1"
SECRET = "hunter2-hunter2"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "root")


def test_a_new_root_has_the_golden_marker(storage: Storage) -> None:
    assert open_root(storage) is storage
    assert without_checksum(storage.read(ROOT_MARKER)) == (GOLDEN / ROOT_MARKER).read_bytes()
    assert storage.list("") == [ROOT_MARKER]
    open_root(storage)
    read_root(storage)


def test_the_golden_root_is_read() -> None:
    read_root(open_storage(GOLDEN))


def test_reading_a_root_writes_nothing(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(NoRootError, match=ROOT_MARKER):
        read_root(storage)
    assert not (tmp_path / "root").exists()


def test_the_folder_of_another_program_is_refused(storage: Storage) -> None:
    for foreign in (b'{"format": "other", "version": 1}', b"hello", b"[]", b"\xff"):
        storage.replace(ROOT_MARKER, foreign)
        with pytest.raises(ForeignRootError):
            open_root(storage)
        with pytest.raises(ForeignRootError):
            read_root(storage)


def test_a_root_with_a_damaged_marker_is_not_called_foreign(storage: Storage) -> None:
    """The other error advises another folder. A user who followed it would restart every job from scratch."""
    open_root(storage)
    storage.replace(ROOT_MARKER, storage.read(ROOT_MARKER).replace(b'"crc32": "', b'"crc32":  "'))
    for read in (open_root, read_root):
        with pytest.raises(MalformedDocumentError, match=r"ckpt-root\.json.*changed after it was written"):
            read(storage)


def test_a_root_of_a_newer_version_names_both_versions(storage: Storage) -> None:
    storage.create(ROOT_MARKER, json.dumps({"format": "airflow-provider-ckpt/root", "version": 7}).encode())
    with pytest.raises(NewerFormatError, match=r"version 7.*up to version 1"):
        open_root(storage)


# ---- roots inside or around other roots


@pytest.fixture(params=["local", "memory", "s3"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """Yield a storage to create roots in."""
    if request.param == "local":
        yield open_storage(tmp_path)
    elif request.param == "memory":
        storage = open_storage(f"memory://roots-{uuid.uuid4().hex}")
        yield storage
        storage.delete_tree("")
    else:
        yield request.getfixturevalue("s3_bucket")


@pytest.fixture
def s3_bucket() -> Iterator[Storage]:
    s3fs = pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with s3_server() as endpoint:
        options = {
            "key": "k",
            "secret": "s",
            "endpoint_url": endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }
        bucket = f"b-{uuid.uuid4().hex}"  # a new name, because the server keeps its buckets within this process
        s3fs.S3FileSystem(**options).call_s3("create_bucket", Bucket=bucket)
        yield open_storage(Location(f"s3://{bucket}", options))


@pytest.mark.parametrize("inner", ["team/ckpt/job", "team/ckpt/a/b/c"])
def test_a_root_inside_a_root_is_refused_before_anything_is_written(top: Storage, inner: str) -> None:
    open_root(top.child("team/ckpt"))
    before = all_names(top)
    with pytest.raises(RootRefusedError, match="s there, and be deleted with it; choose") as raised:
        open_root(top.child(inner))
    assert top.full_uri("team/ckpt") in str(raised.value)
    assert isinstance(raised.value, InvalidInputError)
    assert all_names(top) == before


def test_a_root_directly_below_a_root_is_refused(top: Storage) -> None:
    """The outer root is the bucket itself, or the direct parent folder."""
    open_root(top)
    with pytest.raises(RootRefusedError, match="s there, and be deleted with it; choose"):
        open_root(top.child("x"))


def test_a_root_around_a_root_is_refused_before_anything_is_written(top: Storage) -> None:
    open_root(top.child("team/ckpt"))
    before = all_names(top)
    with pytest.raises(RootRefusedError, match="s; choose another folder, or use that") as raised:
        open_root(top.child("team"))
    assert top.full_uri("team/ckpt") in str(raised.value)
    assert all_names(top) == before


def test_roots_next_to_each_other_are_allowed(top: Storage) -> None:
    for name in ("team/a", "team/ab", "other"):
        open_root(top.child(name))
        open_root(top.child(name))


def all_names(top: Storage) -> list[str]:
    """Return all names, with folders where they exist."""
    if top.uri.startswith("file:"):
        folder = Path(top.uri.removeprefix("file://"))
        return sorted(str(path) for path in folder.rglob("*"))
    return [name for name, _ in top.files("")]


def test_a_parent_without_read_rights_is_skipped(tmp_path: Path) -> None:
    """Rights often begin below a prefix. A user with such rights cannot have created a root above it."""
    denied = Unchecked(open_storage(tmp_path), StorageDeniedError(uri="above", reason="a test"))
    open_root(WithParent(open_storage(tmp_path / "root"), denied))


def test_a_parent_that_cannot_be_checked_now_raises_the_error(tmp_path: Path) -> None:
    error = StorageTransientError(verb="look for", uri="above", reason="a test")
    with pytest.raises(StorageTransientError):
        open_root(WithParent(open_storage(tmp_path / "root"), Unchecked(open_storage(tmp_path), error)))
    assert not (tmp_path / "root").exists()


class Unchecked(WrappedStorage):
    def __init__(self, inner: Storage, error: Exception) -> None:
        super().__init__(inner)
        self.error = error

    def exists(self, path: str) -> bool:
        raise self.error


def test_a_folder_without_read_rights_in_a_new_root_is_skipped(storage: Storage) -> None:
    """For example ``lost+found``, if the root is a file system of its own."""

    class Mounted(WrappedStorage):
        def exists(self, path: str) -> bool:
            if path.startswith("lost+found/"):
                raise StorageDeniedError(uri=self.full_uri(path), reason="a test")
            return super().exists(path)

    storage.create("lost+found/x", b"")
    open_root(Mounted(storage))
    assert storage.exists(ROOT_MARKER)


class WithParent(WrappedStorage):
    def __init__(self, inner: Storage, parent: Storage) -> None:
        super().__init__(inner)
        self.parent = parent

    def parents(self) -> Storages:
        return [self.parent]


# ---- names that Spark interprets


@pytest.mark.parametrize("character", list("[]{}*?\\"))
@pytest.mark.parametrize("where", ["{}", "a{}b/root", "team/x{}"])
def test_a_root_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, where: str, character: str) -> None:
    folder = tmp_path / where.replace("{}", character)
    with pytest.raises(RootRefusedError, match="in its path, which Spark takes for a") as raised:
        open_root(open_storage(folder))
    assert f"has {character} in its path" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a b", "a:b", "a%20b", "k=1", "a#b", "a,b", "a+b", "ü", ".a", "_a", "a'b", "a|b", "a^b"]
)
def test_a_root_may_have_any_other_characters(tmp_path: Path, name: str) -> None:
    """Each of these names was tried with whole jobs."""
    open_root(open_storage(tmp_path / name))
    assert (tmp_path / name / ROOT_MARKER).is_file()


# ---- URIs


@pytest.mark.parametrize("prefix", ["", "file://", "file:", "local://"])
def test_local_paths_have_one_canonical_form(tmp_path: Path, prefix: str) -> None:
    storage = open_storage(f"{prefix}{tmp_path}/a//b/../c/")
    assert storage.uri == f"file://{tmp_path}/a/c"
    assert storage.full_uri("x/y") == storage.spark_uri("x/y") == f"file://{tmp_path}/a/c/x/y"


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("ckpt").uri == open_storage("./ckpt/").uri == f"file://{tmp_path}/ckpt"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        " ",
        "simplecache::s3://b/x",
        "s3://b/../x",
        "s3://b//x",
        "s3://b/x?versionId=1",
        "nonsense://x",
        "s3://",
        "s3:/b/x",
        "S3:/b",
    ],
)
def test_an_impossible_root_uri_is_refused(uri: str) -> None:
    with pytest.raises(InvalidStorageUriError):
        open_storage(Location(uri, {"key": "k", "secret": SECRET}))


def test_a_refused_uri_is_answered_with_the_reason() -> None:
    """A URI with one slash used to create a folder "s3:" in the working directory."""
    with pytest.raises(InvalidStorageUriError, match="two slashes follow a scheme: s3://"):
        open_storage("s3:/bucket/ckpt")
    with pytest.raises(InvalidStorageUriError, match="NUL"):
        open_storage("/lake/\0")


@pytest.mark.parametrize("uri", [f"s3:/key:{SECRET}@bucket/ckpt", f"s3:/bucket/ckpt?token={SECRET}"])
def test_a_uri_with_one_slash_shows_no_secret(uri: str) -> None:
    with pytest.raises(InvalidStorageUriError, match="two slashes") as raised:
        open_storage(uri)
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value.data)


def test_a_path_may_have_colons(tmp_path: Path) -> None:
    for path in (f"{tmp_path}/a:/b", f"file:{tmp_path}/a:/b"):
        assert open_storage(path).uri == f"file://{tmp_path}/a:/b"


def test_a_password_in_a_uri_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidStorageUriError, match="storage options") as raised:
        open_storage(f"ftp://user:{SECRET}@host/path")
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value.data)


def test_an_option_the_file_system_refuses_is_named_without_its_value() -> None:
    with pytest.raises(InvalidStorageOptionsError, match="token") as raised:
        open_storage(Location("strict://some/x", {"token": SECRET}))
    assert SECRET not in str(raised.value)
    assert "bad token ***" in str(raised.value)


# ---- backends that cannot be trusted


class Fallback(MemoryFileSystem):  # type: ignore[misc]
    """File system with fsspec's default creation, which checks and then writes. Most file systems use it."""

    protocol = "fallback"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        AbstractFileSystem.pipe_file(self, path, value, **kwargs)


class WithoutOverride(Fallback):
    """File system like :class:`Fallback` that does not override ``pipe_file``."""

    protocol = "without-override"
    pipe_file = AbstractFileSystem.pipe_file


class Overwriting(Fallback):
    """File system that ignores ``mode``, as s3fs did for small objects until 2025."""

    protocol = "overwriting"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        with self.open(path, "wb") as file:
            file.write(value)


class Lying(Overwriting):
    """File system that refuses the second creation only after it has overwritten the first object."""

    protocol = "lying"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        there = self.exists(path)
        super().pipe_file(path, value)
        if mode == "create" and there:
            raise FileExistsError(path)


class Leaking(Fallback):
    protocol = "leaking"

    def __init__(self, token: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.token = token

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        raise OSError(f"the server refused {self.token}")


class Strict(Fallback):
    protocol = "strict"

    def __init__(self, token: str = "", **options: Any) -> None:
        raise ValueError(f"bad token {token}")


for kind in (Fallback, WithoutOverride, Overwriting, Lying, Leaking, Strict):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


@pytest.mark.parametrize("protocol", ["fallback", "without-override", "overwriting", "lying"])
def test_r17_a_backend_without_exclusive_creation_is_refused(protocol: str) -> None:
    storage = open_storage(f"{protocol}://some/root")
    with pytest.raises(StorageUnsuitableError, match=f"{protocol}://some/root"):
        open_root(storage)
    assert storage.files("") == []


def test_reprs_and_errors_of_a_storage_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    storage = open_storage(Location("leaking://some/root", {"token": SECRET}))
    with caplog.at_level(logging.DEBUG), pytest.raises(StorageTransientError) as raised:
        storage.child("x").read("y")
    shown = [str(raised.value), repr(raised.value), repr(raised.value.data), repr(storage), storage.uri]
    assert not any(SECRET in text for text in shown)
    assert "***" in str(raised.value)
    assert raised.value.__cause__ is None
    assert SECRET not in caplog.text


# ---- layout


@pytest.mark.parametrize("job_id", ["orders", "a", "_x", "9", "a.b~c-d_e", "A" * 200, "a..b"])
def test_a_job_id_names_its_folder(job_id: str) -> None:
    assert layout.journal_path(job_id) == f"{job_id}/journal"


@pytest.mark.parametrize(
    "job_id", ["", ".a", "-a", "~a", "a/b", "a b", "ä", "A" * 201, "..", "a\n", "a\\b", "a%2Fb", "a:b"]
)
def test_a_job_id_that_is_no_folder_name_is_refused(job_id: str) -> None:
    with pytest.raises(InvalidJobIdError):
        layout.check_job_id(job_id)
    with pytest.raises(InvalidJobIdError):
        layout.journal_path(job_id)


def test_the_layout_is_the_documented_layout() -> None:
    assert [
        layout.frozen_path("j", "history"),
        layout.subtask_log_path("j", "daily", 0),
        layout.prepared_path("j", "daily", 0),
        layout.partition_path("j", "daily", 1),
        layout.metadata_path("j", 42),
        layout.request_path("j", "r"),
    ] == [
        "j/frozen/history.json",
        "j/vertices/daily/0/log",
        "j/vertices/daily/0/prepared",
        "j/vertices/daily/1/partition",
        "j/checkpoints/chk-42/_metadata",
        "j/requests/r.json",
    ]


@pytest.mark.parametrize("name", ["a/b", "..", "", "."])
def test_a_name_that_leaves_its_folder_is_refused(name: str) -> None:
    paths: list[Callable[[], str]] = [
        lambda: layout.frozen_path("j", name),
        lambda: layout.subtask_path("j", name, 0),
        lambda: layout.request_path("j", name),
    ]
    for path in paths:
        with pytest.raises(InvalidPathError):
            path()
