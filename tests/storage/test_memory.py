from __future__ import annotations

import uuid
from collections.abc import Iterator

import fsspec
import pytest

from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.storage_conformance import Fault, StorageConformance


class TestMemoryStorage(StorageConformance):
    @pytest.fixture
    def storage(self) -> Iterator[Storage]:
        storage = open_storage(f"memory://test-{uuid.uuid4().hex}/root")
        yield storage
        storage.delete_tree("")

    def faulty(self, fault: Fault) -> None:
        return None

    def test_fsspec_sees_the_same_objects(self, storage: Storage) -> None:
        storage.create("x", b"1")
        with fsspec.open(storage.full_uri("x")) as file:
            assert file.read() == b"1"
