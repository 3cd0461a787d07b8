"""A folder of a local or shared POSIX file system (R17)."""

from __future__ import annotations

import errno
import filecmp
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import (
    AlreadyExistsError,
    MoveConflictError,
    ObjectNotFoundError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.paths import Sizes, check_path, is_temporary
from airflow_provider_ckpt.storage.storage import Storage

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class LocalStorage(Storage):
    """Objects are files. A file becomes visible under its name only whole and on disk: it is written and
    fsynced under a temporary name in the same folder, then linked (create) or renamed (replace)."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder or "."))
        super().__init__(f"file://{self._folder}")

    def _full(self, path: str, *, root: bool = False) -> str:
        check_path(path, root=root)
        return f"{self._folder}/{path}" if path else self._folder

    def create(self, path: str, data: bytes) -> None:
        target = self._full(path)
        with translated("create", self.full_uri(path), write=True):
            if not os.path.lexists(target):
                with _temporary(target) as temporary:
                    _write_durably(temporary, data)
                    if self._link(temporary, target):
                        _sync_folder(os.path.dirname(target))
                        return
        raise AlreadyExistsError(path=path, uri=self.full_uri(path))

    def _link(self, temporary: str, target: str) -> bool:
        try:
            os.link(temporary, target)
        except FileExistsError:
            # Over NFS the reply of a link that succeeded can be lost and the call repeated.
            return os.stat(temporary).st_nlink == 2
        except OSError as error:
            if error.errno not in _NO_LINKS or not os.access(os.path.dirname(target), os.W_OK):
                raise
            raise StorageUnsuitableError(uri=self.uri, reason="the file system has no hard links") from error
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self._full(path)
        with translated("replace", self.full_uri(path), write=True), _temporary(target) as temporary:
            _write_durably(temporary, data)
            os.replace(temporary, target)
            _sync_folder(os.path.dirname(target))

    def read(self, path: str) -> bytes:
        return self._read(path, 0, -1)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._read(path, start, end - start)

    def _read(self, path: str, start: int, size: int) -> bytes:
        full = self._full(path)
        with translated("read", self.full_uri(path)):
            try:
                with open(full, "rb", buffering=0) as file:
                    file.seek(start)
                    return file.read(size)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                pass
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def size(self, path: str) -> int:
        full = self._full(path)
        with translated("read", self.full_uri(path)):
            try:
                status = os.stat(full)
                if not stat.S_ISDIR(status.st_mode):
                    return status.st_size
            except (FileNotFoundError, NotADirectoryError):
                pass
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def list(self, path: str) -> list[str]:
        full = self._full(path, root=True)
        with translated("list", self.full_uri(path)):
            try:
                return sorted(name for name in os.listdir(full) if not is_temporary(name))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def files(self, path: str) -> Sizes:
        full = self._full(path, root=True)
        with translated("list", self.full_uri(path)):
            return sorted(_walk(full, ""))

    def copy(self, source: str, target: str) -> None:
        origin, goal = self._full(source), self._full(target)
        with translated("copy", self.full_uri(source), write=True):
            if not os.path.isfile(origin):
                raise ObjectNotFoundError(path=source, uri=self.full_uri(source))
            with _temporary(goal) as temporary:
                try:
                    os.link(origin, temporary)
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    shutil.copyfile(origin, temporary)
                _sync_file(temporary)
                # Renaming onto another link of the same file does nothing; _temporary then removes it.
                os.replace(temporary, goal)
                _sync_folder(os.path.dirname(goal))

    def move(self, source: str, target: str) -> None:
        origin, goal = self._full(source), self._full(target)
        with translated("move", self.full_uri(source), write=True):
            if not os.path.isfile(origin):
                if not os.path.isfile(goal):
                    raise ObjectNotFoundError(path=source, uri=self.full_uri(source))
                return
            _sync_file(origin)
            _make_folder(os.path.dirname(goal))
            try:
                # Unlike rename, link never overwrites.
                os.link(origin, goal)
            except FileExistsError:
                if not self._same_content(source, target):
                    raise MoveConflictError(source=self.full_uri(source), target=self.full_uri(target)) from None
            _sync_folder(os.path.dirname(goal))
            _unlink(origin)

    def _same_content(self, one: str, other: str) -> bool:
        first, second = self._full(one), self._full(other)
        return os.path.samefile(first, second) or filecmp.cmp(first, second, shallow=False)

    def sync(self, path: str) -> None:
        full = self._full(path)
        with translated("sync", self.full_uri(path), write=True):
            if not os.path.lexists(full):
                raise ObjectNotFoundError(path=path, uri=self.full_uri(path))
            _sync_tree(full)
            above = os.path.dirname(full)
            while above.startswith(self._folder):
                _sync_folder(above)
                above = os.path.dirname(above)

    def delete(self, path: str) -> None:
        full = self._full(path)
        with translated("delete", self.full_uri(path), write=True):
            if not os.path.isdir(full):
                _unlink(full)

    def delete_tree(self, path: str) -> None:
        full = self._full(path, root=True)
        with translated("delete", self.full_uri(path), write=True):
            while os.path.isdir(full):
                try:
                    shutil.rmtree(full)
                except FileNotFoundError:
                    continue  # someone else deletes here too
            _unlink(full)

    def child(self, path: str) -> LocalStorage:
        return LocalStorage(self._full(path))


@contextmanager
def _temporary(target: str) -> Iterator[str]:
    """A fresh hidden name beside ``target``, whose folder is made; gone at the end, whatever happened."""
    folder = os.path.dirname(target)
    _make_folder(folder)
    name = f"{folder}/.tmp-{secrets.token_hex(8)}"
    try:
        yield name
    finally:
        _unlink(name)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass


def _make_folder(folder: str) -> None:
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder should be", folder) from None
    _sync_folder(parent)


def _write_durably(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_file(path: str) -> None:
    _sync(path, os.O_RDONLY)


def _sync_folder(path: str) -> None:
    _sync(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))


def _sync_tree(path: str) -> None:
    """Files before the folders that name them. Checksums and other hidden files too: readers verify by them."""
    if not os.path.isdir(path):
        _sync_file(path)
        return
    with os.scandir(path) as entries:
        found = list(entries)
    for entry in found:
        _sync_tree(entry.path)
    _sync_folder(path)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot fsync a folder
            raise
    finally:
        os.close(descriptor)


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if is_temporary(entry.name):
            continue
        if entry.is_dir():
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
            continue
        try:
            yield f"{prefix}{entry.name}", entry.stat().st_size
        except FileNotFoundError:
            continue  # deleted since the folder was read
