"""Storage in a folder of a local or shared POSIX file system (R17)."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import time

from airflow_provider_ckpt.storage import local_batches, local_sync, posix
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    FoldersApartError,
    MalformedDocumentError,
    ObjectNotFoundError,
    StorageFailedError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.local_batches import NO_LINKS
from airflow_provider_ckpt.storage.paths import Names, Pairs, Sizes, check_path, is_temporary
from airflow_provider_ckpt.storage.storage import Storage, Storages
from airflow_provider_ckpt.storage.writers import temporary_name

_DELETIONS = 100
_PAUSE = 0.02
"""Seconds between two tries to delete a folder into which another process still writes."""
_PROBE = ".probe-"
MOST_BYTES = 512 << 20
"""Maximum size in bytes of a file that is read at once. The largest expected files have a few megabytes."""


class LocalStorage(Storage):
    """Storage in a local folder. Its objects are files.

    A file gets its name only when all its bytes are on disk. It is written and fsynced under a temporary name in the
    same folder, and then linked (create) or renamed (replace). Links below ``top`` are refused, because they may lead
    to files of other users. ``top`` itself, and folders above it, may be links.

    Args:
        top: outermost storage folder above this one; None if this folder is the outermost. :meth:`sync` makes all names
            below it durable.
    """

    def __init__(self, folder: str, top: str | None = None) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder or "."))
        self._top = top or self._folder
        super().__init__(f"file://{self._folder}")

    def _full(
        self, path: str, *, root: bool = False, no_link: bool | None = None, known_folders: set[str] | None = None
    ) -> str:
        """Return the full path of a file or folder. Raises InvalidPathError and StorageFailedError.

        Args:
            root: True if ``path`` may be empty.
            no_link: True if ``path`` itself must not be a link; None for the value of ``root``.
            known_folders: folders that are known to be no links. Folders that this call checks are added.
        """
        check_path(path, root=root)
        full = os.path.join(self._folder, path) if path else self._folder
        checked = full if (root if no_link is None else no_link) else os.path.dirname(full)
        link = posix.link_below(self._top, checked, set() if known_folders is None else known_folders)
        if link is not None:
            raise self._link_error(full, link)
        return full

    def _link_error(self, full: str, link: str) -> StorageFailedError:
        """Return the error for a link. With it, another user could make the root's owner read or write other files."""
        return StorageFailedError(
            "{uri} is not used: {link} is a link, and links below {top} are not followed, because they may lead to "
            "files of others. Put what it leads to in its place, or remove it",
            uri=f"file://{full}",
            link=link,
            top=self._top,
        )

    def spark_uri(self, path: str = "") -> str:
        self._full(path, root=True, no_link=True)
        return super().spark_uri(path)

    def create(self, path: str, data: bytes) -> None:
        target = self._full(path)
        with translated("create", self.full_uri(path), write=True):
            if not posix.is_taken(target):
                with posix.temporary(target) as temporary:
                    posix.write_durably(temporary, data)
                    if self._link(temporary, target):
                        posix.sync_folder(os.path.dirname(target))
                        return
            # The caller may find its own object, of a try that failed after the link, and continue (R17).
            posix.sync_folder(os.path.dirname(target))
        raise AlreadyExistsError(path=path, uri=self.full_uri(path))

    def _link(self, temporary: str, target: str) -> bool:
        try:
            os.link(temporary, target)
        except FileExistsError:
            # Over NFS the reply of a link that succeeded can be lost and the call repeated.
            return os.stat(temporary).st_nlink == 2
        except OSError as error:
            if error.errno not in NO_LINKS or not os.access(os.path.dirname(target), os.W_OK):
                raise
            raise StorageUnsuitableError(uri=self.uri, reason="the file system has no hard links") from error
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self._full(path)
        with translated("replace", self.full_uri(path), write=True), posix.temporary(target) as temporary:
            posix.write_durably(temporary, data)
            os.replace(temporary, target)
            posix.sync_folder(os.path.dirname(target))

    def read(self, path: str) -> bytes:
        return self._read(path, 0, -1)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        return self._read(path, start, end - start)

    def _read(self, path: str, start: int, size: int) -> bytes:
        full = self._full(path)  # opening the file refuses a link of its name
        with translated("read", self.full_uri(path)):
            try:
                # Buffered: a bare read may return less than there is, which would be taken for the end.
                with posix.open_regular(full) as file:
                    if size < 0:
                        self._refuse_huge(path, os.fstat(file.fileno()).st_size)
                    if start:
                        file.seek(start)
                    return file.read(size)
            except (*posix.ABSENT, IsADirectoryError):
                pass
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise self._link_error(full, full) from None
        raise ObjectNotFoundError(path=path, uri=self.full_uri(path))

    def _refuse_huge(self, path: str, size: int) -> None:
        """Refuse a file above MOST_BYTES, which would fill the memory. A huge sparse file costs its writer nothing."""
        if size > MOST_BYTES:
            reason = f"it has {size} bytes, more than the {MOST_BYTES} that are read at once"
            raise MalformedDocumentError(uri=self.full_uri(path), what="checkpoint", reason=reason)

    def exists(self, path: str) -> bool:
        full = self._full(path)
        with translated("look for", self.full_uri(path)):
            return posix.kind_of(full) == "file"

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
        full = self._full(path, root=True, no_link=True)
        with translated("list", self.full_uri(path)):
            try:
                return sorted(name for name in os.listdir(full) if not is_temporary(name))
            except posix.ABSENT:
                return []

    def list_some(self, path: str, most: int) -> Names:
        full = self._full(path, root=True)
        with translated("list", self.full_uri(path)):
            try:
                with os.scandir(full) as entries:
                    names = (entry.name for entry in entries if not is_temporary(entry.name))
                    return sorted(itertools.islice(names, most))
            except posix.ABSENT:
                return []

    def files(self, path: str) -> Sizes:
        full = self._full(path, root=True, no_link=True)
        with translated("list", self.full_uri(path)):
            return sorted(posix.walk(full))

    def copy(self, source: str, target: str) -> None:
        origin, goal = self._full(source, no_link=True), self._full(target)
        with translated("copy", self.full_uri(source), write=True):
            if posix.kind_of(origin) != "file":
                raise ObjectNotFoundError(path=source, uri=self.full_uri(source))
            with posix.temporary(goal) as temporary:
                try:
                    os.link(origin, temporary)
                except OSError as error:
                    if error.errno not in NO_LINKS:
                        raise
                    shutil.copyfile(origin, temporary)
                posix.sync_file(temporary)
                # Renaming onto another link of the same file does nothing; temporary() then removes it.
                os.replace(temporary, goal)
                posix.sync_folder(os.path.dirname(goal))

    def copy_all(self, copies: Pairs) -> set[str]:
        pairs, sources = self._pairs(copies)
        with translated("copy", self.uri, write=True):
            missing = local_batches.copy_all(pairs, self._top)
        return {sources[origin] for origin in missing}

    def _pairs(self, pairs: Pairs) -> tuple[Pairs, dict[str, str]]:
        """Return (pairs of full paths, full source path -> given source path)."""
        known_folders = set[str]()
        full = [
            (
                self._full(source_path, no_link=True, known_folders=known_folders),
                self._full(target_path, known_folders=known_folders),
            )
            for source_path, target_path in pairs
        ]
        return full, {origin: source for (origin, _), (source, _) in zip(full, pairs, strict=True)}

    def move(self, source: str, target: str) -> None:
        if self.move_all([(source, target)]):
            raise ObjectNotFoundError(path=source, uri=self.full_uri(source))

    def move_all(self, moves: Pairs) -> set[str]:
        pairs, sources = self._pairs(moves)
        uri = self.full_uri(moves[0][0]) if len(moves) == 1 else self.uri
        with translated("move", uri, write=True):
            missing = local_batches.move_all(pairs)
        return {sources[origin] for origin in missing}

    def _same_content(self, path: str, other_path: str) -> bool:
        return posix.same_content(self._full(path), self._full(other_path))

    def sync(self, path: str) -> None:
        full = self._full(path, root=True, no_link=True)
        with translated("sync", self.full_uri(path), write=True):
            kind = posix.kind_of(full)
            if kind is None:
                raise ObjectNotFoundError(path=path, uri=self.full_uri(path))
            if kind == "file":
                posix.sync_file(full)
            else:
                local_sync.sync_tree(full)
            while full != self._top:
                full = os.path.dirname(full)
                posix.sync_folder(full)

    def delete(self, path: str) -> None:
        full = self._full(path)
        with translated("delete", self.full_uri(path), write=True):
            if posix.kind_of(full) != "folder":
                posix.unlink(full)

    def delete_tree(self, path: str) -> None:
        full = self._full(path, root=True, no_link=False)
        with translated("delete", self.full_uri(path), write=True):
            for _ in range(_DELETIONS):
                if posix.is_link(full) or posix.kind_of(full) != "folder":
                    break  # if it is a link, only its name is deleted
                try:
                    shutil.rmtree(full)
                except FileNotFoundError:
                    continue  # another process deletes here, too
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    time.sleep(_PAUSE)  # a cancelled task may still write here
            else:
                raise OSError(errno.EAGAIN, "others write or delete in it, again and again", full)
            posix.unlink(full)

    def temporary(self, path: str, older_than: float, *, deep: bool = True) -> Sizes:
        full = self._full(path, root=True, no_link=True)
        with translated("list", self.full_uri(path)):
            files = local_sync.temporary(full, older_than, deep)
        return sorted((os.path.relpath(file, full).replace(os.sep, "/"), size) for file, size in files)

    def collect_temporary(self, path: str, older_than: float, *, deep: bool = True) -> int:
        full = self._full(path, root=True, no_link=True)
        with translated("delete", self.full_uri(path), write=True):
            return local_sync.collect_temporary(full, older_than, deep)

    def probe_move(self, source: str, target: str) -> None:
        """Refuse two folders between which a file cannot be moved. Create both folders.

        The test moves an empty folder and not a file, because readers might read the file.
        """
        origin, goal = (os.path.join(self._full(folder), temporary_name(_PROBE)) for folder in (source, target))
        with translated("move", self.full_uri(source), write=True):
            for folder in (origin, os.path.dirname(goal)):
                posix.make_folder(folder)
            try:
                os.rename(origin, goal)
                os.rmdir(goal)
            except OSError as error:
                os.rmdir(origin)
                if error.errno == errno.EXDEV:
                    raise FoldersApartError(source=self.full_uri(source), target=self.full_uri(target)) from None
                raise

    def try_out(self) -> None:
        missing = posix.missing_folders(self._folder)
        try:
            self.probe()
        finally:
            for folder in missing:
                try:
                    os.rmdir(folder)
                except OSError:
                    break  # never made, or no longer empty

    def parents(self) -> Storages:
        parents: Storages = []
        folder = self._folder
        while folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
            parents.append(LocalStorage(folder))
        return parents

    def child(self, path: str) -> LocalStorage:
        return LocalStorage(self._full(path), self._top)
