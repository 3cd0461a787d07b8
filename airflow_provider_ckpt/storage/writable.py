"""Checks of local folders before a run. They write nothing."""

from __future__ import annotations

import errno
import os

from airflow_provider_ckpt.storage.errors import FoldersApartError
from airflow_provider_ckpt.storage.faults import translated
from airflow_provider_ckpt.storage.storage import Storage

_LOCAL = "file://"


def refuse_unwritable(storage: Storage) -> None:
    """Refuse a local folder that this user cannot write to or create. Other storages are not checked.

    Raises StorageReadOnlyError and StorageFailedError.
    """
    if not storage.uri.startswith(_LOCAL):
        return
    folder = _nearest(storage.uri.removeprefix(_LOCAL))
    with translated("write to", storage.uri, write=True):
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)


def refuse_apart(source: Storage, target: Storage) -> None:
    """Refuse two local folders on different file systems. Raises FoldersApartError."""
    if source.uri.startswith(_LOCAL) and _device(source) != _device(target):
        raise FoldersApartError(source=source.uri, target=target.uri)


def is_gone(storage: Storage) -> bool:
    """Return whether a local folder is missing. Return False for other storages, which have no empty folders."""
    return storage.uri.startswith(_LOCAL) and not os.path.isdir(storage.uri.removeprefix(_LOCAL))


def _device(storage: Storage) -> int:
    with translated("look for", storage.uri):
        return os.stat(_nearest(storage.uri.removeprefix(_LOCAL))).st_dev


def _nearest(folder: str) -> str:
    """Return the folder, or the nearest folder above it that exists."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder
