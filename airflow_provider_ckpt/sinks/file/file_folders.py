"""The two folders of a file sink: the table's folder for released files, and the bookkeeping folder for other files.

Staged files are next to the table's folder, because not all readers skip hidden names as Spark does. DuckDB's ``**``
and a folder scan of Polars list every file below a folder. Polars also refuses a folder with files of two different
extensions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri, open_storage
from airflow_provider_ckpt.storage.storage import Storage

BOOKS_PREFIX = "_ckpt-"
"""The prefix of a bookkeeping folder: the folder for the table ``revenue`` is ``_ckpt-revenue``."""
_WITHOUT_HOST = ("file", "memory")


@dataclass(frozen=True)
class Places:
    """The folders of a table. ``parent``: URI of the folder above. ``target``, ``books``: paths relative to it."""

    parent: str
    target: str
    books: str


def places_of(path: str) -> Places:
    """Return the folders for the ``path`` of a sink, a local path or a URI. Opens no file system.

    For a partition's folder (``revenue/day=1``), the bookkeeping folder is next to the table ``revenue``, because
    readers of the table list the partitions. A symbolic link on a local disk is resolved first.

    Raises InvalidSinkError if the table has no parent folder, and InvalidStorageUriError for an unreadable URI.
    """
    uri = canonical_uri(path)
    scheme, rest = uri.split("://", 1)
    host, names = "", [name for name in rest.split("/") if name]
    if scheme not in _WITHOUT_HOST:
        host, names = names[0], names[1:]
    table = next((index for index in reversed(range(len(names))) if "=" not in names[index]), None)
    if table is None:
        reason = (
            "has no folder above it that rows can be staged in: they are staged in a folder next to the table, so that "
            "no reader of the table finds them. Give a folder below, such as '…/orders'"
        )
        raise InvalidSinkError(sink="FileSink", setting="path", value=path, reason=reason)
    if scheme == "file" and (linked := _linked(f"/{'/'.join(names[: table + 1])}")):
        return places_of("/".join([linked, *names[table + 1 :]]))
    if reserved := [name for name in names if name.startswith(BOOKS_PREFIX)]:
        reason = f"lies in {reserved[0]!r}: folders of that name hold what other sinks have staged. Give another folder"
        raise InvalidSinkError(sink="FileSink", setting="path", value=path, reason=reason)
    parents = [host, *names[:table]] if host else names[:table]
    parent = f"{scheme}://{'/' if scheme == 'file' else ''}{'/'.join(parents)}"
    target = "/".join(names[table:])
    return Places(parent, target, f"{BOOKS_PREFIX}{target}")


def _linked(folder: str) -> str | None:
    """Return the target of a folder that is a link; None if it is no link or the links form a circle."""
    real = os.path.realpath(folder) if os.path.islink(folder) else None
    return None if real is None or os.path.islink(real) else real


@dataclass(frozen=True)
class FileFolders:
    """The opened folders of a file sink. ``parent``: the storage of their parent folder."""

    parent: Storage
    places: Places

    @classmethod
    def open(cls, folder: Location) -> FileFolders:
        """Open the folders of a sink's path.

        Raises the errors of :func:`places_of` and :func:`open_storage`.
        """
        places = places_of(folder.uri)
        return cls(open_storage(Location(places.parent, folder.options)), places)

    @cached_property
    def target(self) -> Storage:
        """The storage of the table's folder, which readers list."""
        return self.parent.child(self.places.target)

    @cached_property
    def books(self) -> Storage:
        """The storage of the bookkeeping folder, which has staged files, manifests and the turn log."""
        return self.parent.child(self.places.books)
