"""Entries of a subtask's log whose files are lost: missing, or not of the size that the log records."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname

from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile


def lost_entries(storage: Storage, partition: str, records: Iterable[Numbered]) -> list[int]:
    """Return the positions of live entries with a file that is missing or has another size than the log records.

    A file that has become empty is lost, too, because Spark would read it as a file without rows. This lists the
    partition with one request.

    Raises the storage's errors, because a partition that cannot be listed is not lost.
    """
    published = [(number, record.files) for number, record in records if isinstance(record, Batch) and record.files]
    if not published:
        return []
    sizes = dict(storage.files(partition))
    return [number for number, files in published if any(sizes.get(file.path) != file.size for file in files)]


def refuse_damaged(storage: Storage, partition: str, files: Iterable[PartitionFile]) -> None:
    """Refuse files that are missing or have another size than the log records. Call it before the files are read.

    Each folder costs one LIST request.

    Raises PartitionFilesDamagedError.
    """
    expected_sizes = {file.path: file.size for file in files}
    sizes: dict[str, int] = {}
    for folder in sorted({dirname(path) for path in expected_sizes}):
        sizes |= {f"{folder}/{name}": size for name, size in storage.files(f"{partition}/{folder}")}
    for path, size in expected_sizes.items():
        if sizes.get(path) != size:
            actual = "is gone" if path not in sizes else f"has {sizes[path]}"
            raise PartitionFilesDamagedError(uri=storage.full_uri(f"{partition}/{path}"), size=size, found=actual)
