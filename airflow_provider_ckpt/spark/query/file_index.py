"""The files of a relation, as Spark's index of them has it."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.sparkfiles.seen_files import normal_path


def index_of(leaf: Any) -> Any | None:
    """Of a leaf of a plan; None if it is no file source of Spark's own, or one that lists its files in another way
    (Delta's answers for them itself)."""
    if leaf.nodeName() != "LogicalRelation" or _kind(leaf.relation()) != "HadoopFsRelation":
        return None
    location = leaf.relation().location()
    return location if _kind(location) == "InMemoryFileIndex" else None


def beside_partitions(index: Any) -> str | None:
    """The normal path of a file that is listed and not read, None if there is none. Where folders are named
    ``column=value`` Spark reads what lies in them, and leaves out, without a word, what lies beside them.

    ``index``: an ``InMemoryFileIndex``. A call of the JVM for a file and two for a folder, if there are such folders.
    """
    spec = index.partitionSpec()
    if spec.partitionColumns().isEmpty():
        return None
    partitions = spec.partitions()
    paths = [partitions.apply(number).path().toUri().toString() for number in range(partitions.size())]
    read = {normal_path(path).rstrip("/") for path in paths}
    files = (normal_path(uri) for uri in index.inputFiles())
    return min((file for file in files if file.rpartition("/")[0] not in read), default=None)


def _kind(one: Any) -> str:
    return str(one.getClass().getSimpleName())
