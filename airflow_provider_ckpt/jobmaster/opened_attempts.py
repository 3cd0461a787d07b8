"""The attempts that a job's own logs know: whose leftovers in a target are this job's (R5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_entries import subtask_entries
from airflow_provider_ckpt.storage.errors import CorruptLogError
from airflow_provider_ckpt.storage.layout import vertices_path
from airflow_provider_ckpt.storage.storage import Storage


def opened_attempts(storage: Storage, job_id: str, besides: Collection[str] = ()) -> Iterator[AttemptId]:
    """Of every subtask the job ever had, but for the logs ``besides``: a sink may have been another vertex's before.
    Of a log that is damaged those before the damage. No ``open`` is ever deleted while the job is not: an attempt
    opens its log before it stages, so that none has left anything that is not in the answer."""
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
