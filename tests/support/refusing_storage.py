"""Storage in which some folders cannot be deleted, as in an object store under legal hold."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ckpt.storage.errors import StorageReadOnlyError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage


class RefusingStorage(WrappedStorage):
    """Storage that refuses to delete the folders whose path ``refused`` returns True for."""

    def __init__(self, inner: Storage, refused: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self.refused = refused

    def delete_tree(self, path: str) -> None:
        if self.refused(path):
            raise StorageReadOnlyError(uri=path, reason="AccessDenied")
        super().delete_tree(path)

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        act()

    def _wrap(self, inner: Storage) -> RefusingStorage:
        return RefusingStorage(inner, self.refused)
