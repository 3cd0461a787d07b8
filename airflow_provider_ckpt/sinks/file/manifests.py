"""Functions that list the files a file sink has released, without Spark or the job. Each release has one manifest.

Example::

    for manifest in read_manifests("/lake/daily_revenue", sink="lake", after=41):
        print(manifest.checkpoint, manifest.rows, [file.path for file in manifest.files])

    spark.read.option("basePath", path).parquet(*released_files(path))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.manifest_log import Manifest, ManifestLog, ReleasedFile
from airflow_provider_ckpt.sinks.file.ownership_log import OwnershipLog
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.layout import is_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

__all__ = ["Manifest", "ReleasedFile", "read_manifests", "released_files"]


def read_manifests(
    path: str,
    job_id: str | None = None,
    sink: str | None = None,
    after: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Manifest]:
    """Return the manifests of all releases to the sink's folder ``path``, except those of replaced sinks.

    The manifests are grouped by job and sink (sorted), each group in the order of its checkpoints. A sink with
    ``mode="overwrite"`` replaces the releases of other jobs with its first manifest, all at once. An absent folder has
    no releases.

    Args:
        job_id: job of the releases; None means all jobs.
        sink: uid of the sink; None means all sinks.
        after: checkpoint above which releases are returned; None means all. An incremental reader passes the last
            checkpoint it has read, with ``job_id`` and ``sink``, because each job counts its own checkpoints.
        storage_options: fsspec options of the folder.

    Raises ReleaseRecordLostError when manifests were deleted, and NewerFormatError when a newer version wrote them.
    """
    storage = FileFolders.open(Location(path, storage_options or {})).books
    logs: dict[SinkName, ManifestLog] = {}
    manifests_by_sink: dict[SinkName, list[Manifest]] = {}
    for job in [job_id] if job_id is not None else filter(is_job_id, storage.list("")):
        for uid in [sink] if sink is not None else storage.list(job):
            name = SinkName(job, uid)
            logs[name] = ManifestLog(storage, job, uid)
            manifests_by_sink[name] = logs[name].read(after)
    is_selected = lambda name: job_id in (None, name.job_id) and sink in (None, name.sink)  # noqa: E731
    replaced = _replaced(storage, logs, is_selected)
    return [manifest for name, manifests in manifests_by_sink.items() if name not in replaced for manifest in manifests]


def _replaced(
    storage: Storage, logs: Mapping[SinkName, ManifestLog], is_selected: Callable[[SinkName], bool]
) -> set[SinkName]:
    """Return the sinks whose releases another sink has replaced.

    A replacement by a selected sink is ignored if its first manifest appeared after ``logs`` were read. Otherwise
    :func:`read_manifests` would return neither the old nor the new rows. A sink absent from ``logs`` had no manifest.
    """
    replaced: set[SinkName] = set()
    for name in {turn.name for turn in OwnershipLog(storage).catch_up() if turn.supersedes}:
        log = logs.get(name)
        if log is None and is_selected(name):
            continue
        log = log or ManifestLog(storage, name.job_id, name.sink)
        if log.length():
            replaced.update(log.entry(0).supersedes)
    return replaced


def released_files(
    path: str,
    job_id: str | None = None,
    sink: str | None = None,
    after: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the URIs of all released files in Spark's spelling, in the order of :func:`read_manifests`."""
    storage = FileFolders.open(Location(path, storage_options or {})).target
    manifests = read_manifests(path, job_id, sink, after, storage_options)
    return [storage.spark_uri(file.path) for manifest in manifests for file in manifest.files]
