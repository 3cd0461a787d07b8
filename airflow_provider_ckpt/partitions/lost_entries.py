"""Entries of a subtask's log whose files are lost."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.storage.storage import Storage


def lost_entries(storage: Storage, partition: str, records: Iterable[Numbered]) -> list[int]:
    """Return the positions of live entries with a file that is missing or has another size than it was published
    with.

    The size matters because Spark takes an empty file for a file without rows. Lists the partition once.

    Raises the storage's errors, because an unlisted partition is not a lost one.
    """
    named = [(number, record.files) for number, record in records if isinstance(record, Batch) and record.files]
    if not named:
        return []
    found = dict(storage.files(partition))
    return [number for number, files in named if any(found.get(file.path) != file.size for file in files)]
