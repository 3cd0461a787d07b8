"""Storages whose client cannot start, and impossible paths, which are refused with an error of the package."""

from __future__ import annotations

import socket

import pytest

from airflow_provider_ckpt.errors import CkptError, TransientError
from airflow_provider_ckpt.storage.errors import (
    InvalidStorageOptionsError,
    InvalidStorageUriError,
    StorageFailedError,
    StorageUnreachableError,
)
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_hdfs_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = pytest.importorskip("pyarrow.fs")

    def failing(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm: libjvm.so: cannot open shared object file")

    monkeypatch.setattr(fs, "HadoopFileSystem", failing)
    with pytest.raises(CkptError, match=r"hdfs://nn:8020/ckpt cannot be (opened|reached): .*Unable to load libjvm"):
        open_storage("hdfs://nn:8020/ckpt")


def test_a_missing_ftp_server_is_a_transient_error() -> None:
    with pytest.raises(StorageUnreachableError, match=r"ftp://127\.0\.0\.1:\d+/x cannot be reached") as refused:
        open_storage(f"ftp://127.0.0.1:{free_port()}/x")
    assert isinstance(refused.value, TransientError)


@pytest.mark.parametrize("uri", ["zip://x", "tar://x", "zip:///no/such/file.zip/x"])
def test_an_archive_is_refused(uri: str) -> None:
    with pytest.raises((InvalidStorageOptionsError, StorageFailedError, InvalidStorageUriError)):
        open_storage(uri)


def test_a_missing_archive_is_refused_without_its_password() -> None:
    place = Location("zip://x", {"fo": "/no/such/hunter2-and-more.zip", "target_protocol": "file"})
    with pytest.raises(StorageFailedError, match=r"zip://x cannot be opened: FileNotFoundError") as refused:
        open_storage(place)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("uri", ["/tmp/a\ud800", "file:///tmp/\ud800", "s3://b/\ud800", "\ud800://x"])
def test_half_a_surrogate_pair_is_refused(uri: str) -> None:
    with pytest.raises(InvalidStorageUriError, match=r"half a surrogate pair") as refused:
        open_storage(uri)
    str(refused.value).encode()


def test_a_local_folder_may_have_a_name_that_is_not_utf_8() -> None:
    assert open_storage("/tmp/a\udcff").list("") == []


@pytest.mark.parametrize("error", [NotImplementedError("pipe_file"), EOFError()])
def test_python_errors_of_a_file_system_become_errors_of_the_package(error: Exception) -> None:
    with pytest.raises(CkptError, match="zip://x"), translated("create", "zip://x", write=True):
        raise error
    with pytest.raises(StorageFailedError), translated("create", "zip://x"):
        raise NotImplementedError
