"""A check of a result partition's data files against their published sizes."""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname

from airflow_provider_ckpt.partitions.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.partitions.records import PartitionFile
from airflow_provider_ckpt.storage.storage import Storage


def refuse_damaged(storage: Storage, partition: str, files: Iterable[PartitionFile]) -> None:
    """Refuse files that are missing or have another size than the log records. Call it before the files are read.

    The size matters because Spark takes an empty file for a file without rows. Costs one LIST for each folder.

    Raises PartitionFilesDamagedError.
    """
    wanted = {file.path: file.size for file in files}
    found: dict[str, int] = {}
    for folder in sorted({dirname(path) for path in wanted}):
        found |= {f"{folder}/{name}": size for name, size in storage.files(f"{partition}/{folder}")}
    for path, size in wanted.items():
        if found.get(path) != size:
            now = "is gone" if path not in found else f"has {found[path]}"
            raise PartitionFilesDamagedError(uri=storage.full_uri(f"{partition}/{path}"), size=size, found=now)
