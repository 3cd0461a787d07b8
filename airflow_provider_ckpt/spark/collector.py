"""Collects what fenced attempts left behind: staged output and partition data that was never published (R5)."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.job.graph import ExecutionGraph
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.feed import data_folder
from airflow_provider_ckpt.storage.layout import partition_path, requests_path, subtask_path
from airflow_provider_ckpt.storage.storage import Storage


def collect_garbage(
    storage: Storage,
    job_id: str,
    graph: ExecutionGraph,
    logs: Mapping[str, SubtaskLog],
    sinks: Mapping[str, BoundSink],
    attempt: str,
) -> int:
    """Delete what no live entry of a log names and no attempt but ``attempt`` (the current one, whose
    work in progress is spared) could still publish. Call it when every log was opened. Returns a count."""
    removed = 0
    for vertex in graph.vertices:
        batches = [record for _, record in logs[f"{vertex.uid}/0"].records() if isinstance(record, Batch)]
        for uid in vertex.sinks:
            handles = {str(batch.handles[uid]["id"]) for batch in batches if uid in batch.handles}
            removed += len(sinks[uid].collect_garbage(handles, {attempt}))
        removed += _collect_partition(storage, job_id, graph, vertex.uid, batches, attempt)
        storage.delete_tree(f"{subtask_path(job_id, vertex.uid, 0)}/scratch")
    return removed


def _collect_partition(
    storage: Storage, job_id: str, graph: ExecutionGraph, vertex: str, batches: list[Batch], attempt: str
) -> int:
    edges = [edge.uid for edge in graph.outputs(vertex)]
    if not edges:
        return 0
    data = data_folder(partition_path(job_id, vertex, 0), edges)
    published = {file.path.split("/")[-2] for batch in batches for file in batch.files}
    garbage = [name for name in storage.list(data) if name not in published and not name.startswith(f"{attempt}-")]
    for name in garbage:
        storage.delete_tree(f"{data}/{name}")
    return len(garbage)


def clean_up(storage: Storage, job_id: str, graph: ExecutionGraph, sinks: Mapping[str, BoundSink]) -> None:
    """A FINISHED job is never started again: give back its partitions, Spark folders and staged leftovers.

    The journal, the logs and the checkpoints' metadata stay: they say what happened. Safe to repeat.
    """
    for vertex in graph.vertices:
        home = subtask_path(job_id, vertex.uid, 0)
        for part in ("partition", "spark", "prepared", "scratch"):
            storage.delete_tree(f"{home}/{part}")
        for uid in set(vertex.sinks) & sinks.keys():  # a job that FINISHED may have been edited since
            sinks[uid].collect_garbage(set(), set())
    storage.delete_tree(requests_path(job_id))
