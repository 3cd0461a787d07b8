"""The marker of a checkpoint root."""

from __future__ import annotations

import re

from airflow_provider_ckpt.storage.envelope import PREFIX, decode_document, encode_document
from airflow_provider_ckpt.storage.errors import (
    ForeignRootError,
    MalformedDocumentError,
    NoRootError,
    ObjectNotFoundError,
    RootRefusedError,
    StorageDeniedError,
)
from airflow_provider_ckpt.storage.storage import Storage

ROOT_MARKER = "ckpt-root.json"
ROOT_VERSION = 1
_PATTERN = re.compile(r"[][{}*?\\]")
_MOST_CHECKED = 100


def open_root(storage: Storage) -> Storage:
    """Probe the storage (R17). Make it a checkpoint root, or check that it is one. Return the storage.

    Raises the errors of :func:`check_root`, :meth:`Storage.probe` and :func:`read_root`.
    """
    check_root(storage)
    storage.probe()
    is_new = storage.create_if_absent(ROOT_MARKER, encode_document("root", ROOT_VERSION))
    return storage if is_new else read_root(storage)


def check_root(storage: Storage) -> None:
    """Refuse a place that cannot be a root. Write nothing. Raises RootRefusedError."""
    check_root_for_spark(storage.uri)
    for parent in storage.parents():
        if _has_marker(parent, ROOT_MARKER):
            raise RootRefusedError(
                "the root {uri} lies inside another checkpoint root, {outer}: its files would look like a job's "
                "there, and be deleted with it; choose a folder outside",
                uri=storage.uri,
                outer=parent.uri,
            )
    if storage.exists(ROOT_MARKER):
        return
    for name in storage.list("")[:_MOST_CHECKED]:  # cheap enough, and a folder of roots has few names
        if _has_marker(storage, f"{name}/{ROOT_MARKER}"):
            raise RootRefusedError(
                "the root {uri} would contain another checkpoint root, {inner}, whose files would look like a "
                "job's; choose another folder, or use that root",
                uri=storage.uri,
                inner=storage.full_uri(name),
            )


def check_root_of_run(storage: Storage) -> None:
    """Refuse a place that cannot be a root, or that other processes cannot read. Raises RootRefusedError."""
    if storage.uri.startswith("memory:"):
        raise RootRefusedError(
            "the root {uri} lives in this process only, and Spark's executors could not read it; use a folder "
            "(file://) or an object store",
            uri=storage.uri,
        )
    check_root(storage)


def check_root_for_spark(uri: str) -> None:
    """Refuse a URI with characters that Spark takes for a pattern of other folders. Raises RootRefusedError."""
    characters = sorted(set(_PATTERN.findall(uri)))
    if characters:
        raise RootRefusedError(
            "the root {uri} has {characters} in its path, which Spark takes for a pattern: it would read other "
            "folders; choose a path without them",
            uri=uri,
            characters=" ".join(characters),
        )


def _has_marker(storage: Storage, marker: str) -> bool:
    """Return whether the marker exists. Return False for an unreadable folder, such as ``lost+found``."""
    try:
        return storage.exists(marker)
    except StorageDeniedError:
        return False


def read_root(storage: Storage) -> Storage:
    """Check that the storage is a checkpoint root, and return it. Write nothing.

    Raises NoRootError, ForeignRootError, NewerFormatError, and MalformedDocumentError for a damaged marker.
    """
    uri = storage.full_uri(ROOT_MARKER)
    try:
        data = storage.read(ROOT_MARKER)
    except ObjectNotFoundError:
        raise NoRootError(uri=storage.uri, marker=ROOT_MARKER) from None
    try:
        decode_document(data, "root", ROOT_VERSION, uri=uri)
    except MalformedDocumentError:
        if f'"{PREFIX}root"'.encode() in data:
            raise  # our own damaged root: another folder would restart every job from scratch
        raise ForeignRootError(uri=storage.uri, marker=ROOT_MARKER) from None  # the cause quotes the content
    return storage
