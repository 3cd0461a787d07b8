"""Storage for ``memory://``, fsspec's in-process file system, for tests and examples."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from airflow_provider_ckpt.storage.errors import AlreadyExistsError, ObjectNotFoundError
from airflow_provider_ckpt.storage.paths import Sizes, check_path, is_temporary
from airflow_provider_ckpt.storage.storage import Storage, Storages


class MemoryStorage(Storage):
    """Storage in the dict of fsspec's memory file system.

    The file system's ``open`` is not thread-safe. So this class uses the dict, whose single operations are atomic.
    """

    def __init__(self, path: str) -> None:
        self._folder = f"/{path.strip('/')}".rstrip("/")
        super().__init__(f"memory://{self._folder.lstrip('/')}")

    @property
    def _objects(self) -> dict[str, Any]:
        objects: dict[str, Any] = MemoryFileSystem.store
        return objects

    def _full(self, path: str) -> str:
        return f"{self._folder}/{check_path(path)}"

    def _below(self, path: str) -> list[str]:
        prefix = f"{self._full(path) if path else self._folder}/"
        names = (name[len(prefix) :] for name in list(self._objects) if name.startswith(prefix))
        return sorted(name for name in names if not is_temporary(name))

    def _file(self, full: str, data: bytes) -> Any:
        return MemoryFile(MemoryFileSystem(), full, bytes(data))

    def create(self, path: str, data: bytes) -> None:
        full = self._full(path)
        file = self._file(full, data)
        if self._objects.setdefault(full, file) is not file:
            raise AlreadyExistsError(path=path, uri=self.full_uri(path))

    def replace(self, path: str, data: bytes) -> None:
        full = self._full(path)
        self._objects[full] = self._file(full, data)

    def read(self, path: str) -> bytes:
        file = self._objects.get(self._full(path))
        if file is None:
            raise ObjectNotFoundError(path=path, uri=self.full_uri(path))
        data: bytes = file.getvalue()
        return data

    def exists(self, path: str) -> bool:
        return self._full(path) in self._objects

    def list(self, path: str) -> list[str]:
        return sorted({name.split("/", 1)[0] for name in self._below(path)})

    def files(self, path: str) -> Sizes:
        prefix = self._full(path) if path else self._folder
        files = ((name, self._objects.get(f"{prefix}/{name}")) for name in self._below(path))
        return [(name, file.size) for name, file in files if file is not None]

    def copy(self, source: str, target: str) -> None:
        goal = self._full(target)
        self._objects[goal] = self._file(goal, self.read(source))

    def _same_content(self, path: str, other_path: str) -> bool:
        return self.read(path) == self.read(other_path)

    def delete(self, path: str) -> None:
        self._objects.pop(self._full(path), None)

    def delete_tree(self, path: str) -> None:
        full = self._full(path) if path else self._folder
        for name in list(self._objects):
            if name == full or name.startswith(f"{full}/"):
                self._objects.pop(name, None)

    def parents(self) -> Storages:
        parts = self._folder.strip("/").split("/")
        return [MemoryStorage("/".join(parts[:length])) for length in range(len(parts) - 1, 0, -1)]

    def child(self, path: str) -> MemoryStorage:
        return MemoryStorage(self._full(path))
