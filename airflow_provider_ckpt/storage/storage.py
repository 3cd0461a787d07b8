"""Interface of storages: small operations on paths below one URI.

Storages need (R17) an atomic create-if-absent, an atomic replacement of a small object, read-after-write and
list-after-write. :meth:`Storage.probe` refuses a backend without an atomic create-if-absent.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable

from airflow_provider_ckpt.concurrency import map_parallel
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    MoveConflictError,
    ObjectNotFoundError,
    StorageFullError,
    StorageTokenExpiredError,
    StorageTransientError,
    StorageUnreachableError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.paths import Names, Pairs, Sizes, check_path

_HADOOP = {"s3": "s3a"}
_PROBE = ".probe"


class Storage(ABC):
    """A folder of a file system or object store.

    Every path is relative to ``uri``, with slashes, and without ``..``. Other paths raise InvalidPathError. Every
    method may also raise StorageTransientError (the operation may or may not have taken effect), StorageDeniedError,
    StorageReadOnlyError or StorageFailedError. Names that start with a dot are temporary.

    An object is absent only if the backend reports that it does not exist. A failing disk, a stale handle, a missing
    right or a missing bucket raises an error in every method.
    """

    requests_at_once = 1
    """Maximum number of requests that callers send in parallel. It is above 1 for a store that answers slowly."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        """The canonical URI, for users and for fsspec. It has no secrets."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Create an object if it is absent. No reader gets an incomplete object. It is durable when this returns.

        Raises AlreadyExistsError if the object exists. It may be the caller's own, because the client may have repeated
        a request after a lost reply (R17). The caller must compare the content to find out.
        """

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object like :meth:`create`. Return False if the object exists already.

        The existing object may be the caller's own, written by a request whose reply was lost.
        """
        try:
            self.create(path, data)
        except AlreadyExistsError:
            return False
        return True

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small object. Readers get the old or the new content, never a mixture."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the content of an object. Raises ObjectNotFoundError."""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` up to ``end`` (exclusive). If the object is shorter, return fewer.

        Raises ObjectNotFoundError.
        """
        return self.read(path)[start:end]

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether an object (not a folder) exists."""

    def size(self, path: str) -> int:
        """Return the size of an object in bytes. Raises ObjectNotFoundError."""
        return len(self.read(path))

    @abstractmethod
    def list(self, path: str) -> list[str]:
        """Return the sorted names of objects and folders directly in ``path``; empty if it does not exist.

        An empty folder still has its name on a local disk, but not in an object store.
        """

    def list_some(self, path: str, most: int) -> Names:
        """Return at most ``most`` of the names that :meth:`list` returns, no matter which.

        In a large folder this costs much less than :meth:`list`.
        """
        return self.list(path)[:most]

    @abstractmethod
    def files(self, path: str) -> Sizes:
        """Return (path relative to ``path``, bytes) of every object below it, sorted."""

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an immutable object. If possible the backend copies, so that the bytes do not pass through this process.

        ``target`` is replaced. On a local disk the copy is a hard link to the same file. So no program may change the
        file in place afterwards. :meth:`replace` writes a new file instead.

        Raises ObjectNotFoundError.
        """

    def copy_all(self, copies: Pairs) -> set[str]:
        """Copy many objects, given as (source, target). Return the sources that do not exist.

        The copies are durable when this returns. Until then no reader may use the targets. This costs much less than
        single copies (one flush on a local disk, parallel requests elsewhere).

        Raises the errors of :meth:`copy`. Some of the objects may have been copied before the error.
        """
        return self._missing_sources(self.copy, copies)

    def sync(self, path: str) -> None:  # noqa: B027 - an object store has nothing to do
        """Make durable the files below ``path``, which another program (Spark) wrote, and the names of parent folders.

        This must be called before a durable record names the files. On a local disk, every file and folder below
        ``path`` is fsynced. An object store needs no request.

        Raises ObjectNotFoundError if ``path`` does not exist (an object store does not check this).
        """

    def temporary(self, path: str, older_than: float, *, deep: bool = True) -> Sizes:
        """Return the files that :meth:`collect_temporary` would delete, as (path relative to ``path``, bytes)."""
        return []

    def collect_temporary(self, path: str, older_than: float, *, deep: bool = True) -> int:
        """Delete temporary files of killed writers below ``path``, and return their number.

        With ``deep=False`` only files directly in ``path`` are deleted. A file is deleted if its writer has
        certainly ended, or if it has not changed for ``older_than`` seconds by the file system's clock. Object stores
        have no temporary files.
        """
        return 0

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete an object if it exists."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete everything at and below ``path``, if it exists. This is not atomic."""

    @abstractmethod
    def child(self, path: str) -> Storage:
        """Return the storage of a folder in this storage."""

    def parents(self) -> Storages:
        """Return a storage for each folder above this one, the nearest first. Callers must only read from them."""
        return []

    @abstractmethod
    def _same_content(self, path: str, other_path: str) -> bool:
        """Return whether two objects have the same bytes. Raises ObjectNotFoundError."""

    def move(self, source: str, target: str) -> None:
        """Rename an object. A crash may leave both names, and another call then finishes the move.

        Raises MoveConflictError if ``target`` has other content, and ObjectNotFoundError if neither name exists.
        """
        try:
            if self.exists(source):
                self._move(source, target)
                return
        except ObjectNotFoundError:
            pass  # another process moves it, too, and has deleted it since
        if not self.exists(target):
            raise ObjectNotFoundError(path=source, uri=self.full_uri(source))

    def _move(self, source: str, target: str) -> None:
        if not self.exists(target):
            self.copy(source, target)
        elif not self._same_content(source, target):
            raise MoveConflictError(source=self.full_uri(source), target=self.full_uri(target))
        self.delete(source)

    def move_all(self, moves: Pairs) -> set[str]:
        """Rename many objects, given as (source, target). Return the sources that exist under neither name.

        After a crash or an error, an object may have its old name, its new name, or both. Another call finishes the
        moves.

        Raises MoveConflictError.
        """
        return self._missing_sources(self.move, moves)

    def _missing_sources(self, operation: Callable[[str, str], None], pairs: Pairs) -> set[str]:
        """Call ``operation`` for each of ``pairs``. Return the sources that do not exist."""

        def was_present(pair: tuple[str, str]) -> bool:
            try:
                operation(*pair)
            except ObjectNotFoundError:
                return False
            return True

        were_present = map_parallel(was_present, pairs, self.requests_at_once)
        return {source for (source, _), is_present in zip(pairs, were_present, strict=True) if not is_present}

    def full_uri(self, path: str = "") -> str:
        """Return the URI of an object or folder for fsspec, which also needs this storage's options."""
        return self.uri if not path else f"{self.uri.rstrip('/')}/{check_path(path)}"

    def spark_uri(self, path: str = "") -> str:
        """Return the URI of an object or folder for Hadoop's file systems (``s3a://`` instead of ``s3://``)."""
        scheme, rest = self.full_uri(path).split("://", 1)
        return f"{_HADOOP.get(scheme, scheme)}://{rest}"

    def probe(self) -> None:
        """Refuse a backend that cannot hold checkpoints (R17). Each start calls this before any work.

        One small object is created twice, read and deleted.

        Raises StorageUnsuitableError if the second creation succeeds or the object reads differently. Also raises
        StorageReadOnlyError, StorageFullError and StorageUnreachableError.
        """
        path = f".probe-{secrets.token_hex(8)}"
        try:
            self.create(path, b"1")
            self._probe_second_create(path)
            self.delete(path)
        except (StorageFullError, StorageTokenExpiredError):
            raise
        except StorageTransientError as error:
            raise StorageUnreachableError(uri=self.uri, reason=error.data["reason"]) from error

    def probe_move(self, source: str, target: str) -> None:
        """Refuse a folder ``target`` into which no file of ``source`` can be moved. Each start calls this first.

        In an object store, one small object is created in ``target`` and deleted. If ``target`` is not empty, this does
        nothing, because readers may list the folder.

        Raises FoldersApartError (local disks only) and the errors of :meth:`create`.
        """
        if self.list(target):
            return
        path = f"{target}/{_PROBE}"  # one fixed name, so that the next start deletes the object of a killed driver
        self.create_if_absent(path, b"1")
        self.delete(path)

    def check_rights(self, name: str) -> None:  # noqa: B027 - a local folder is checked without a write
        """Refuse an object store in which this process has no right to write, read, list or delete.

        A driver calls this before Spark starts. One small object is written and deleted. ``name`` is the job's id, so
        that two jobs use different objects. :func:`~.writable.refuse_unwritable` checks local folders instead.

        Raises StorageReadOnlyError, StorageDeniedError and the errors of the other methods.
        """

    def try_out(self) -> None:
        """Probe like :meth:`probe`, for a check without a run (``ckpt doctor``). Then delete the folders it created."""
        self.probe()

    def _probe_second_create(self, path: str) -> None:
        if self.create_if_absent(path, b"2"):
            reason = "creating an object that exists already succeeded"
        elif self.read(path) == b"1":
            return
        else:
            reason = "an object just written reads differently"
        self.delete(path)
        raise StorageUnsuitableError(uri=self.uri, reason=reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"


Storages = list[Storage]
"""List of storages. Annotations need this name, because :meth:`Storage.list` hides the builtin."""
