"""Search for folders on full disks, because Spark reports a full disk without a path."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.spark.task.context import RunContext

_FULL = ("No space left on device", "Disk quota exceeded")
_LEAST = 1 << 20
"""Bytes. A disk with less room counts as full."""
_LOCAL = "file://"


def with_full_disks(cause: str, context: RunContext) -> str:
    """Return ``cause``. If it reports a full disk, add the folders of this run that have no room left."""
    if not any(text in cause for text in _FULL):
        return cause
    full = full_folders(_folders(context))
    return f"{cause}; no room is left in {', '.join(full)}" if full else cause


def full_folders(folders: Iterable[str]) -> list[str]:
    """Return the local folders that lie on a full disk, each once."""
    return [folder for folder in dict.fromkeys(folders) if _free(folder) < _LEAST]


def _folders(context: RunContext) -> Iterator[str]:
    places = [context.storage.uri]
    places += [place.uri for operator in context.job.sinks for place in operator.sink.spark_folders({})]
    for uri in places:
        path = uri.removeprefix(_LOCAL)
        if "://" not in path:
            yield os.path.abspath(path)
    given = os.environ.get("SPARK_LOCAL_DIRS") or context.spark.conf.get("spark.local.dir", None)
    yield from (given or tempfile.gettempdir()).split(",")


def _free(folder: str) -> float:
    """Return the bytes that are free for this user on the folder's disk.

    If the folder does not exist, take the nearest folder above it.
    """
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the disk may be gone
        return float("inf")
