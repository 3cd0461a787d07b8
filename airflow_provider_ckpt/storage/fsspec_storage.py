"""Storage on any fsspec file system with exclusive creation, mostly object stores."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.errors import AlreadyExistsError, ObjectNotFoundError, StorageUnsuitableError
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.paths import Names, Sizes, check_path, is_temporary
from airflow_provider_ckpt.storage.storage import Storage, Storages

_CHUNK = 8 << 20
REQUESTS_AT_ONCE = 16
"""Maximum number of parallel requests to a remote store. It is well below the limits of clients and stores."""
_GLOB = frozenset("*?[")


class FsspecStorage(Storage):
    """Storage on an fsspec file system.

    Replacing, reading and copying are single requests, which are atomic in every object store. Exclusive creation is
    trusted only if the file system itself implements ``pipe_file(mode="create")``. fsspec's own fallback first checks
    and then writes, and a probe cannot detect the difference.
    """

    def __init__(self, uri: str, fs: AbstractFileSystem, folder: str, secrets: tuple[str, ...] = ()) -> None:
        super().__init__(uri)
        self._fs = fs
        self._folder = folder.rstrip("/")
        self._secrets = secrets
        self._exclusive = creates_exclusively(fs)
        if isinstance(fs, AsyncFileSystem):
            self.requests_at_once = REQUESTS_AT_ONCE

    def _full(self, path: str, *, root: bool = False) -> str:
        check_path(path, root=root)
        return f"{self._folder}/{path}" if path else self._folder

    def _guard(self, verb: str, path: str, *, write: bool = False) -> AbstractContextManager[None]:
        right = lambda error: self._right(verb, error)  # noqa: E731
        return translated(verb, self.full_uri(path), write=write, secrets=self._secrets, right=right)

    def _right(self, verb: str, error: BaseException) -> str:
        """Return the right that a refused operation needs, under the store's name for it; empty if it is not known."""
        return ""

    def create(self, path: str, data: bytes) -> None:
        full = self._full(path)
        if not self._exclusive:
            reason = f"fsspec's {type(self._fs).__name__} cannot create an object only if it is absent"
            raise StorageUnsuitableError(uri=self.uri, reason=reason)
        with self._guard("create", path, write=True):
            if self._create(full, data):
                return
        raise AlreadyExistsError(path=path, uri=self.full_uri(path))

    def _create(self, full: str, data: bytes) -> bool:
        """Create the object. Return False if the name is in use."""
        try:
            self._fs.pipe_file(full, data, mode="create")
        except FileExistsError:
            return False
        return True

    def replace(self, path: str, data: bytes) -> None:
        full = self._full(path)
        with self._guard("replace", path, write=True):
            self._fs.pipe_file(full, data)

    def read(self, path: str) -> bytes:
        return self._read_part(path, None, None)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._read_part(path, start, end)

    def _read_part(self, path: str, start: int | None, end: int | None) -> bytes:
        full = self._full(path)
        with self._guard("read", path):
            try:
                return self._read(full, start, end)
            except IsADirectoryError:
                pass
            except FileNotFoundError as error:
                self._check_absence(error)
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def _read(self, full: str, start: int | None = None, end: int | None = None) -> bytes:
        data: bytes = self._fs.cat_file(full, start=start, end=end)
        return data

    def exists(self, path: str) -> bool:
        full = self._full(path)
        with self._guard("look for", path):
            try:
                return self._exists(full)
            except FileNotFoundError as error:
                self._check_absence(error)
                return False

    def _is_absence(self, error: FileNotFoundError) -> bool:
        """Return whether the error means that an object or folder is absent, and not, for example, its bucket."""
        return True

    def _check_absence(self, error: FileNotFoundError) -> None:
        if not self._is_absence(error):
            raise error

    def _exists(self, full: str) -> bool:
        return bool(self._fs.info(full)["type"] == "file")

    def size(self, path: str) -> int:
        full = self._full(path)
        with self._guard("read", path):
            try:
                size = self._size(full)
                if size is not None:
                    return size
            except FileNotFoundError as error:
                self._check_absence(error)
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def _size(self, full: str) -> int | None:
        """Return the size of an object in bytes; None for a folder."""
        info = self._fs.info(full)
        return int(info["size"]) if info["type"] == "file" else None

    def list(self, path: str) -> list[str]:
        return self._list(path, None)

    def list_some(self, path: str, most: int) -> Names:
        return self._list(path, most)[:most]

    def _list(self, path: str, most: int | None) -> Names:
        full = self._full(path, root=True)
        with self._guard("list", path):
            try:
                names = set(self._names(full, most))
            except NotADirectoryError:
                return []
            except FileNotFoundError as error:
                self._check_absence(error)
                return []
        return sorted(name for name in names if name and not is_temporary(name))

    def _names(self, full: str, most: int | None) -> Iterable[str]:
        """Return the names directly in a folder. After ``most`` names no further request is made; None for no limit."""
        self._fs.invalidate_cache()
        prefix = f"{full}/"
        paths = self._fs.ls(full, detail=False)
        return (name.rstrip("/")[len(prefix) :] for name in paths if name.startswith(prefix))

    def files(self, path: str) -> Sizes:
        prefix = f"{self._full(path, root=True)}/"
        sizes = self._find(path)
        names = ((name[len(prefix) :], size) for name, size in sizes.items() if name.startswith(prefix))
        return sorted((name, size) for name, size in names if not is_temporary(name))

    def _find(self, path: str) -> dict[str, int]:
        full = self._full(path, root=True)
        with self._guard("list", path):
            self._fs.invalidate_cache()
            try:
                infos = _walk(self._fs, full) if _uses_walk(self._fs) else self._fs.find(full, detail=True)
            except FileNotFoundError as error:
                self._check_absence(error)
                return {}
        # Consoles make empty objects whose name ends in "/" to show a folder.
        return {n: int(i["size"]) for n, i in infos.items() if i["type"] == "file" and not n.endswith("/")}

    def copy(self, source: str, target: str) -> None:
        origin, goal = self._full(source), self._full(target)
        with self._guard("copy", source, write=True):
            try:
                self._fs.cp_file(origin, goal)
                return
            except FileNotFoundError as error:
                self._check_absence(error)
        raise ObjectNotFoundError(path=source, uri=self.full_uri(source))

    def _same_content(self, path: str, other_path: str) -> bool:
        first, second = self._full(path), self._full(other_path)
        with self._guard("read", path):
            try:
                size = self._fs.size(first)
                if size != self._fs.size(second):
                    return False
                ranges = [{"start": start, "end": min(start + _CHUNK, size)} for start in range(0, size, _CHUNK)]
                return all(self._fs.cat_file(first, **r) == self._fs.cat_file(second, **r) for r in ranges)
            except FileNotFoundError as error:
                self._check_absence(error)
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def delete(self, path: str) -> None:
        full = self._full(path)
        with self._guard("delete", path, write=True):
            try:
                self._fs.rm_file(full)
            except FileNotFoundError as error:
                self._check_absence(error)

    def check_rights(self, name: str) -> None:
        path = f".rights-{name}"  # the same name at each start, so that an object that cannot be deleted is overwritten
        self.replace(path, b"")
        try:
            self.read(path)
            self.list("")
        except ObjectNotFoundError:
            pass  # another driver of the job has deleted it
        except CkptError:
            with suppress(CkptError):
                self.delete(path)
            raise
        self.delete(path)

    def delete_tree(self, path: str) -> None:
        sizes = self._find(path)
        with self._guard("delete", path, write=True):
            self._delete_all(tuple(sizes))

    def _delete_all(self, names: Sequence[str]) -> None:
        # A list takes one request per thousand objects, but treats names as patterns.
        plain = [name for name in names if not _GLOB.intersection(name)]
        try:
            if plain:
                self._fs.rm(plain)
        except FileNotFoundError:
            plain = []  # another process deletes here, too, and the rest of the list may not have been tried
        for name in set(names) - set(plain):
            try:
                self._fs.rm_file(name)
            except FileNotFoundError as error:
                self._check_absence(error)

    def parents(self) -> Storages:
        parents: Storages = []
        folder, uri = self._folder, self.uri.rstrip("/")
        while "/" in folder.strip("/"):
            folder, uri = folder.rpartition("/")[0], uri.rpartition("/")[0]
            parents.append(type(self)(uri, self._fs, folder, self._secrets))
        return parents

    def child(self, path: str) -> FsspecStorage:
        return type(self)(self.full_uri(path), self._fs, self._full(path), self._secrets)


def creates_exclusively(fs: AbstractFileSystem) -> bool:
    """Return whether the file system's own class, and not a base class of fsspec, implements ``mode="create"``."""
    if isinstance(fs, AsyncFileSystem):
        method, base = type(fs)._pipe_file, AsyncFileSystem._pipe_file
    else:
        method, base = type(fs).pipe_file, AbstractFileSystem.pipe_file
    return method is not base and "mode" in inspect.signature(method).parameters


def _uses_walk(fs: AbstractFileSystem) -> bool:
    """Return whether ``find`` is fsspec's own walk, which silently skips folders that it cannot list."""
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is AsyncFileSystem._find
    return type(fs).find is AbstractFileSystem.find


def _walk(fs: AbstractFileSystem, folder: str) -> dict[str, Mapping[str, Any]]:
    """Return name -> information of each object below a folder, like fsspec's ``find``."""
    infos = {}
    for info in fs.ls(folder, detail=True):
        name = info["name"].rstrip("/")
        if info["type"] != "directory":
            infos[info["name"]] = info
        elif name != folder:
            try:
                infos.update(_walk(fs, name))
            except FileNotFoundError:
                continue  # deleted since its parent was listed
    return infos
