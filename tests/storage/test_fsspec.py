"""Storage on any fsspec file system with exclusive creation.

The tests use one in memory, with fsspec's walk and injected faults.
"""

from __future__ import annotations

import errno
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from airflow_provider_ckpt.storage.errors import (
    StorageDeniedError,
    StorageReadOnlyError,
    StorageTransientError,
    StorageUnreachableError,
)
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.storage_conformance import Fault, StorageConformance

ERRORS = {
    "denied": PermissionError(errno.EACCES, os.strerror(errno.EACCES)),
    "broken": OSError(errno.EIO, os.strerror(errno.EIO)),
}


class Exclusive(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's file system in memory, with exclusive creation and injected faults."""

    protocol = "exclusive"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    fault: ClassVar[OSError | None] = None
    below: ClassVar[str] = ""
    """Part of the paths that the fault affects."""

    @classmethod
    def raise_fault(cls, path: Any) -> None:
        if cls.fault is not None and any(
            cls.below in affected for affected in ([path] if isinstance(path, str) else path)
        ):
            raise cls.fault

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.raise_fault(path)
        path = self._strip_protocol(path)
        file = MemoryFile(self, path, bytes(value))
        if mode == "create" and self.store.setdefault(path, file) is not file:
            raise FileExistsError(path)
        self.store[path] = file

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        self.raise_fault(path)
        file = self.store.get(self._strip_protocol(path))
        if file is None:
            raise FileNotFoundError(path)
        data: bytes = file.getvalue()
        return data[start:end]

    def info(self, path: str, **kwargs: Any) -> Any:
        self.raise_fault(path)
        return super().info(path, **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        self.raise_fault(path)
        return super().ls(path, detail=detail, **kwargs)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        self.raise_fault(path1)
        self.pipe_file(path2, self.cat_file(path1))

    def rm_file(self, path: str) -> None:
        self.raise_fault(path)
        if self.store.pop(self._strip_protocol(path), None) is None:
            raise FileNotFoundError(path)

    _rm = rm_file
    find = AbstractFileSystem.find
    walk = AbstractFileSystem.walk


fsspec.register_implementation(Exclusive.protocol, Exclusive, clobber=True)


@contextmanager
def failing(error: OSError, below: str = "") -> Iterator[None]:
    Exclusive.fault, Exclusive.below = error, below
    try:
        yield
    finally:
        Exclusive.fault = None


class TestFsspecStorage(StorageConformance):
    @pytest.fixture
    def storage(self) -> Iterator[Storage]:
        storage = open_storage(f"exclusive://test-{uuid.uuid4().hex}/root")
        yield storage
        Exclusive.store.clear()

    def faulty(self, fault: Fault) -> Any:
        return failing(ERRORS[fault])

    def test_a_folder_that_cannot_be_listed_is_not_skipped(self, storage: Storage) -> None:
        """fsspec's own walk would skip it silently."""
        storage.create("a/x", b"")
        storage.create("a/locked/y", b"")
        with failing(ERRORS["denied"], "locked"), pytest.raises(StorageDeniedError):
            storage.files("a")
        with failing(ERRORS["broken"], "locked"), pytest.raises(StorageTransientError):
            storage.delete_tree("a")
        assert storage.files("a") == [("locked/y", 0), ("x", 0)]

    @pytest.mark.parametrize("verb", ["read", "exists", "size", "list", "files", "delete", "delete_tree"])
    def test_a_missing_bucket_is_not_a_missing_object(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, verb: str
    ) -> None:
        monkeypatch.setattr(storage, "_is_absence", lambda error: False)
        with failing(FileNotFoundError("no such bucket")), pytest.raises(StorageUnreachableError, match="bucket"):
            getattr(storage, verb)("x")

    def test_requests_to_a_remote_store_run_concurrently(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder of state has thousands of files. Sequential requests would add up their latencies."""
        storage.requests_at_once = 4
        names = [str(number) for number in range(8)]
        for name in names:
            storage.create(f"s/{name}", name.encode())
        real, together = Exclusive.cp_file, threading.Barrier(4, timeout=60)

        def meet(fs: Any, path1: str, path2: str, **kwargs: Any) -> None:
            together.wait()
            real(fs, path1, path2, **kwargs)

        monkeypatch.setattr(Exclusive, "cp_file", meet)
        assert storage.copy_all([(f"s/{name}", f"c/{name}") for name in names]) == set()
        assert storage.move_all([(f"s/{name}", f"t/{name}") for name in names]) == set()
        assert [name for name, _ in storage.files("")] == [*(f"c/{name}" for name in names), *(f"t/{n}" for n in names)]

    @pytest.mark.parametrize("seen", ["info", "cp_file", "cat_file"])
    def test_r9_a_concurrent_move_of_the_same_file_succeeds(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, seen: str
    ) -> None:
        """A faster releaser moves the file, at any step of this releaser."""
        storage.create("s/x", b"rows")
        if seen == "cat_file":
            storage.create("t/x", b"rows")  # both names exist, so the bytes are compared
        real, other = getattr(Exclusive, seen), Exclusive.cp_file

        def late(fs: Any, path: str, *args: Any, **kwargs: Any) -> Any:
            if path.endswith("s/x") and path.lstrip("/") in {name.lstrip("/") for name in Exclusive.store}:
                monkeypatch.setattr(Exclusive, seen, real)
                if seen != "cat_file":
                    other(fs, path, path.replace("s/x", "t/x"))
                fs.rm_file(path)
                monkeypatch.setattr(Exclusive, seen, late)
            return real(fs, path, *args, **kwargs)

        monkeypatch.setattr(Exclusive, seen, late)
        assert storage.move_all([("s/x", "t/x")]) == set()
        assert storage.read("t/x") == b"rows"

    def test_no_request_starts_after_a_failed_one(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        storage.requests_at_once = 2
        begun: list[str] = []

        def refuse(fs: Any, path1: str, path2: str, **kwargs: Any) -> None:
            begun.append(path1)
            raise PermissionError(path1)

        monkeypatch.setattr(Exclusive, "cp_file", refuse)
        with pytest.raises(StorageReadOnlyError):
            storage.copy_all([(f"s/{number}", f"t/{number}") for number in range(500)])
        assert len(begun) <= 2

    def test_a_deletion_continues_during_a_concurrent_deletion(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(5):
            storage.create(f"t/{number}", b"")

        def raced(fs: Any, paths: Any, **kwargs: Any) -> None:
            storage.delete("t/2")
            raise FileNotFoundError("t/2")

        monkeypatch.setattr(Exclusive, "rm", raced)
        storage.delete_tree("t")
        assert storage.files("") == []
