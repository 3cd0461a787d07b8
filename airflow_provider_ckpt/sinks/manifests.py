"""What file sinks have released: one manifest a checkpoint, for readers that want exactly that.

Needs neither Spark nor a job::

    for manifest in read_manifests("/lake/daily_revenue", sink="lake", after=41):
        print(manifest.checkpoint, manifest.rows, [file.path for file in manifest.files])

    spark.read.option("basePath", path).parquet(*released_files(path))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING
from airflow_provider_ckpt.sinks.manifest_log import Manifest, ManifestLog, ReleasedFile
from airflow_provider_ckpt.storage.opening import open_storage

__all__ = ["Manifest", "ReleasedFile", "read_manifests", "released_files"]


def read_manifests(
    path: str,
    job_id: str | None = None,
    sink: str | None = None,
    after: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Manifest]:
    """Everything released to the folder ``path``: grouped by job and sink (sorted), each in the order of its
    checkpoints. ``after``: only checkpoints above it (an incremental reader passes the last one it has seen;
    with ``job_id`` and ``sink``, as other sinks count their own checkpoints). An absent folder has none."""
    storage = open_storage(path, storage_options)
    found: list[Manifest] = []
    for job in [job_id] if job_id is not None else storage.list(BOOKKEEPING):
        for uid in [sink] if sink is not None else storage.list(f"{BOOKKEEPING}/{job}"):
            found.extend(ManifestLog(storage, job, uid).read(after))
    return found


def released_files(
    path: str,
    job_id: str | None = None,
    sink: str | None = None,
    after: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """URIs of all released files, in the order of :func:`read_manifests`, as Spark takes them."""
    storage = open_storage(path, storage_options)
    manifests = read_manifests(path, job_id, sink, after, storage_options)
    return [storage.spark_uri(file.path) for manifest in manifests for file in manifest.files]
