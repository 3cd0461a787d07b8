"""The marker that makes a folder a checkpoint root."""

from __future__ import annotations

from airflow_provider_ckpt.errors import (
    AlreadyExistsError,
    ForeignRootError,
    MalformedDocumentError,
    NoRootError,
    ObjectNotFoundError,
)
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.storage import Storage

ROOT_MARKER = "ckpt-root.json"
ROOT_VERSION = 1


def open_root(storage: Storage) -> Storage:
    """Probe the storage (R17) and make it a checkpoint root, or check that it is one; returns it.

    Raises what :meth:`Storage.probe` raises, ForeignRootError, NewerFormatError.
    """
    storage.probe()
    try:
        storage.create(ROOT_MARKER, encode_document("root", ROOT_VERSION))
    except AlreadyExistsError:
        return read_root(storage)
    return storage


def read_root(storage: Storage) -> Storage:
    """Check that the storage is a checkpoint root, writing nothing (for ``ckpt show``, sensors); returns it.

    Raises NoRootError, ForeignRootError, NewerFormatError.
    """
    uri = storage.full_uri(ROOT_MARKER)
    try:
        data = storage.read(ROOT_MARKER)
    except ObjectNotFoundError:
        raise NoRootError(uri=storage.uri, marker=ROOT_MARKER) from None
    try:
        decode_document(data, "root", ROOT_VERSION, uri=uri)
    except MalformedDocumentError as error:
        found = data[:80].decode("utf-8", "replace")
        raise ForeignRootError(uri=storage.uri, found=found) from error
    return storage
