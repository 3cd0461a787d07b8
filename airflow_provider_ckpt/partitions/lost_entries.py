"""Which entries of a subtask's log name files that are gone."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.storage.storage import Storage


def lost_entries(storage: Storage, partition: str, records: Iterable[Numbered]) -> list[int]:
    """Positions of those of the live entries ``records`` of which a file is not in ``partition``, or has another size
    than it was published with: Spark takes an empty file for one without rows. Lists the partition once. Raises the
    storage's errors: what cannot be listed is not gone."""
    named = [(number, record.files) for number, record in records if isinstance(record, Batch) and record.files]
    if not named:
        return []
    found = dict(storage.files(partition))
    return [number for number, files in named if any(found.get(file.path) != file.size for file in files)]
