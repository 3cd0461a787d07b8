"""The attempts in a job's own logs. Only their leftovers in a sink's target belong to this job (R5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_entries import subtask_entries
from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.layout import vertices_path
from airflow_provider_ckpt.storage.storage import Storage


def opened_attempts(storage: Storage, job_id: str, besides: Collection[str] = ()) -> Iterator[AttemptId]:
    """Yield the attempts of every subtask that the job ever had. Sinks need all of them, because another vertex may
    have fed a sink before.

    An attempt opens its log before it stages, and no ``open`` record is deleted before the job is. So no attempt of
    this job with leftovers is missing. Of a damaged log the attempts before the damage are returned.

    Args:
        besides: Paths of logs to leave out.
    """
    vertices = vertices_path(job_id)
    for vertex in storage.list(vertices):
        for subtask in storage.list(f"{vertices}/{vertex}"):
            path = f"{vertices}/{vertex}/{subtask}/log"
            if path in besides:
                continue
            try:
                entries = subtask_entries(storage, path).load()
            except CorruptLogError as error:
                entries = error.data["intact"]
            yield from (entry.value.attempt for entry in entries if isinstance(entry.value, Open))
