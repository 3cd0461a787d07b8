"""The marker that makes a folder a checkpoint root."""

from __future__ import annotations

import re

from airflow_provider_ckpt.storage.envelope import PREFIX, decode_document, encode_document
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    ForeignRootError,
    MalformedDocumentError,
    NoRootError,
    ObjectNotFoundError,
    RootAboveRootError,
    RootInsideRootError,
    RootIsPatternError,
    RootNotForSparkError,
    StorageDeniedError,
)
from airflow_provider_ckpt.storage.storage import Storage

ROOT_MARKER = "ckpt-root.json"
ROOT_VERSION = 1
_PATTERN = re.compile(r"[][{}*?\\]")
_LOOKED_AT = 100


def open_root(storage: Storage) -> Storage:
    """Probe the storage (R17) and make it a checkpoint root, or check that it is one; returns it.

    Raises what :func:`check_root` and :meth:`Storage.probe` raise, and :func:`read_root`.
    """
    check_root(storage)
    storage.probe()
    try:
        storage.create(ROOT_MARKER, encode_document("root", ROOT_VERSION))
    except AlreadyExistsError:
        return read_root(storage)
    return storage


def check_root(storage: Storage) -> None:
    """Refuse a place that can be no root, writing nothing. For ``open_root``, and before: in the first look at a job,
    in ``ckpt doctor`` (:func:`check_root_of_run`).

    Raises RootIsPatternError, RootInsideRootError, and for a root that is not made yet RootAboveRootError.
    """
    check_root_for_spark(storage.uri)
    for parent in storage.parents():
        if _is_there(parent, ROOT_MARKER):
            raise RootInsideRootError(uri=storage.uri, outer=parent.uri)
    if storage.exists(ROOT_MARKER):
        return
    for name in storage.list("")[:_LOOKED_AT]:  # cheap enough; a folder with more names is nobody's list of roots
        if _is_there(storage, f"{name}/{ROOT_MARKER}"):
            raise RootAboveRootError(uri=storage.uri, inner=storage.full_uri(name))


def check_root_of_run(storage: Storage) -> None:
    """As :func:`check_root`, and one that other processes cannot see is refused: for who asks whether a job could run
    there. Raises RootNotForSparkError, too."""
    if storage.uri.startswith("memory:"):
        raise RootNotForSparkError(uri=storage.uri)
    check_root(storage)


def check_root_for_spark(uri: str) -> None:
    """Refuse characters that Spark takes for a pattern: it would look for other folders, or none. Others (``:``, ``%``,
    ``#``, spaces) were tried with whole jobs. Raises RootIsPatternError."""
    found = sorted(set(_PATTERN.findall(uri)))
    if found:
        raise RootIsPatternError(uri=uri, characters=" ".join(found))


def _is_there(storage: Storage, marker: str) -> bool:
    """Where looking is denied there is no root of ours: rights that begin below a prefix are common in object stores,
    and a disk has its ``lost+found``."""
    try:
        return storage.exists(marker)
    except StorageDeniedError:
        return False


def read_root(storage: Storage) -> Storage:
    """Check that the storage is a checkpoint root, writing nothing (for ``ckpt show``, sensors); returns it.

    Raises NoRootError, ForeignRootError, NewerFormatError; MalformedDocumentError: its marker is damaged.
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
            raise  # it is ours, and damaged: who is told to choose another folder begins every job anew
        raise ForeignRootError(uri=storage.uri, marker=ROOT_MARKER) from None  # the cause quotes what it holds
    return storage
