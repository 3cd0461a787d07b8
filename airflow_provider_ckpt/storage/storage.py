"""Everything the system needs of a file system: small verbs on paths below one URI.

What they rest on (R17): create-if-absent that is atomic, replace of a small object that is atomic,
read-after-write, list-after-write. :meth:`Storage.probe` refuses a backend without the first.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable

from airflow_provider_ckpt.storage.at_once import each_at_once
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    MoveConflictError,
    ObjectNotFoundError,
    StorageFullError,
    StorageTransientError,
    StorageUnreachableError,
    StorageUnsuitableError,
)
from airflow_provider_ckpt.storage.paths import Names, Pairs, Sizes, check_path

_HADOOP = {"s3": "s3a"}
_PROBE = ".probe"


class Storage(ABC):
    """A folder of some file system.

    Every path is relative to ``uri``, posix, without ``..`` (:class:`InvalidPathError`). Every verb may
    also raise StorageTransientError (it may or may not have taken effect), StorageDeniedError,
    StorageReadOnlyError or StorageFailedError. Names that start with a dot are temporary.

    An error is not an absence: "absent" below is said only of what the backend says that it does not exist. A disk that
    fails, a stale handle, a missing right or a missing bucket raise, in every verb.
    """

    requests_at_once = 1
    """How many requests in threads of their own are faster than one after the other: of a store whose answers take
    time."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        """Canonical form, for people and for fsspec; it never holds a secret."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Create-if-absent: atomic (never seen half written) and durable on return.

        Raises AlreadyExistsError, also when a lost reply made the client repeat its own request (R17):
        a caller that must know compares what is there.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small object; a reader sees the old or the new one."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Raises ObjectNotFoundError."""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end`` (exclusive), fewer if the object is shorter. Raises
        ObjectNotFoundError."""
        return self.read(path)[start:end]

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether an object (not a folder) is there."""

    def size(self, path: str) -> int:
        """The bytes of an object. Raises ObjectNotFoundError."""
        return len(self.read(path))

    @abstractmethod
    def list(self, path: str) -> list[str]:
        """Sorted names of the objects and folders directly in ``path``; empty if there is none.

        An emptied folder is still a name on a local disk, and is none in an object store.
        """

    def list_some(self, path: str, most: int) -> Names:
        """As :meth:`list`, but at most ``most`` names, whichever they are: the price does not grow with the folder."""
        return self.list(path)[:most]

    @abstractmethod
    def files(self, path: str) -> Sizes:
        """(path relative to ``path``, bytes) of every object below it, sorted; empty if there is none."""

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an immutable object, without its bytes passing through here where the backend can.

        ``target`` is replaced. Raises ObjectNotFoundError. On a local disk it is a hard link: neither
        name may be written in place afterwards (``replace`` does not).
        """

    def copy_all(self, copies: Pairs) -> set[str]:
        """Copy many objects (source, target) under names that nobody goes by before this returns: they are made in any
        order, and durable at the end only. Returns the sources that were not there.

        Much cheaper than one after the other, on a local disk (a thousand links are one flush) and far away (several
        at a time). Raises what :meth:`copy` raises; some are copied then, and some not.
        """
        return self._absent(self.copy, copies)

    def sync(self, path: str) -> None:  # noqa: B027 - an object store has nothing to do
        """Make durable what another program (Spark) wrote below ``path``, and the names that lead there.

        On a local disk every file and folder below is fsynced; an object store keeps what it has confirmed.
        Called before a durable record names the files. Raises ObjectNotFoundError if nothing is there (not in an
        object store, which is not asked).
        """

    def temporary(self, path: str, older_than: float, *, deep: bool = True) -> Sizes:
        """The files that :meth:`collect_temporary` would delete, as :meth:`files` gives others: (path relative to
        ``path``, bytes), sorted. A writer that died while it looked may have left one more."""
        return []

    def collect_temporary(self, path: str, older_than: float, *, deep: bool = True) -> int:
        """Delete the temporary files that killed writers left below ``path`` (``deep=False``: directly in it); returns
        how many.

        Only files that have not changed for ``older_than`` seconds on the file system's own clock: a living writer has
        one for as long as it writes one object. Files whose writer has surely ended go at any age. None in an object
        store, where nothing is seen half written.
        """
        return 0

    @abstractmethod
    def delete(self, path: str) -> None:
        """Silent if absent."""

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete everything below ``path``; silent if absent. Not atomic."""

    @abstractmethod
    def child(self, path: str) -> Storage:
        """The storage of a folder in this one."""

    def parents(self) -> Storages:
        """The storages of the folders that this one lies in, the nearest first, up to the file system's top or the
        bucket. Each can do all verbs, so look only."""
        return []

    @abstractmethod
    def _same_content(self, one: str, other: str) -> bool:
        """Whether two objects hold the same bytes. Raises ObjectNotFoundError."""

    def move(self, source: str, target: str) -> None:
        """Give an object another name; repeated calls are no-ops.

        A crash may leave both names: the next call finishes. Raises MoveConflictError when ``target``
        holds something else (nothing is overwritten), ObjectNotFoundError when both names are absent.
        """
        try:
            if self.exists(source):
                self._move(source, target)
                return
        except ObjectNotFoundError:
            pass  # another one moves it, too, and has deleted it since
        if not self.exists(target):
            raise ObjectNotFoundError(path=source, uri=self.full_uri(source))

    def _move(self, source: str, target: str) -> None:
        if not self.exists(target):
            self.copy(source, target)
        elif not self._same_content(source, target):
            raise MoveConflictError(source=self.full_uri(source), target=self.full_uri(target))
        self.delete(source)

    def move_all(self, moves: Pairs) -> set[str]:
        """Give many objects (source, target) other names, as :meth:`move` does one, in any order; repeated calls are
        no-ops. Returns the sources of which neither name is there; the others have moved.

        A crash, or an error, may leave some with their old names, with both, or with the new one: the next call
        finishes. Raises MoveConflictError.
        """
        return self._absent(self.move, moves)

    def _absent(self, act: Callable[[str, str], None], pairs: Pairs) -> set[str]:
        """``act`` on each of ``pairs``; the sources of which it says that they are not there."""

        def is_there(pair: tuple[str, str]) -> bool:
            try:
                act(*pair)
            except ObjectNotFoundError:
                return False
            return True

        done = each_at_once(is_there, pairs, self.requests_at_once)
        return {source for (source, _), was_there in zip(pairs, done, strict=True) if not was_there}

    def full_uri(self, path: str = "") -> str:
        """The URI of an object, as fsspec reads it (with the same storage options)."""
        return self.uri if not path else f"{self.uri.rstrip('/')}/{check_path(path)}"

    def spark_uri(self, path: str = "") -> str:
        """The URI of an object, as Hadoop's file systems spell it (``s3a://`` for ``s3://``)."""
        scheme, rest = self.full_uri(path).split("://", 1)
        return f"{_HADOOP.get(scheme, scheme)}://{rest}"

    def probe(self) -> None:
        """Refuse a backend that cannot hold checkpoints (R17). Called at every start, before any work.

        Creates one small object twice, reads it and deletes it. Raises StorageUnsuitableError if both
        creations succeed, StorageReadOnlyError, StorageFullError or StorageUnreachableError.
        """
        path = f".probe-{secrets.token_hex(8)}"
        try:
            self.create(path, b"1")
            self._probe_second_create(path)
            self.delete(path)
        except StorageFullError:
            raise
        except StorageTransientError as error:
            raise StorageUnreachableError(uri=self.uri, reason=error.data["reason"]) from error

    def probe_move(self, source: str, target: str) -> None:
        """Refuse two folders between which no file can be moved. Called at every start, before any work.

        Readers may list ``target`` meanwhile, so no file is put there if it holds any. Raises what :meth:`create`
        raises, and FoldersApartError.
        """
        if self.list(target):
            return
        path = f"{target}/{_PROBE}"  # one name: the next start deletes what a killed driver has left
        try:
            self.create(path, b"1")
        except AlreadyExistsError:
            pass
        self.delete(path)

    def try_out(self) -> None:
        """:meth:`probe` for who only wants to know (``ckpt doctor``): no folder is left behind that it had to make."""
        self.probe()

    def _probe_second_create(self, path: str) -> None:
        try:
            self.create(path, b"2")
        except AlreadyExistsError:
            if self.read(path) == b"1":
                return
            reason = "an object just written reads differently"
        else:
            reason = "creating an object that exists already succeeded"
        self.delete(path)
        raise StorageUnsuitableError(uri=self.uri, reason=reason)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"


Storages = list[Storage]
"""(Storage has a verb named list, so the builtin has no annotation there.)"""
