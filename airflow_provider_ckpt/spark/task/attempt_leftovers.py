"""What the attempts before have written for the next vertex, or copied for themselves, and nobody published (R5)."""

from __future__ import annotations

from airflow_provider_ckpt.partitions.attempts import fenced
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sinks.sink import attempt_of
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage


def delete_leftovers(storage: Storage, log: LogReader, *folders: str) -> None:
    """``folders``: of the files for the next vertex, and of copies. By the attempt that has the log, when
    nothing that was prepared before it can be published any more, and after a look at the fence. A run may last for
    months, and a subtask fail each hour: the next driver may be far away."""
    records = log.records()
    over = {str(one) for one in fenced(records)}
    named = {file.folder for _, record in records if isinstance(record, Batch) for file in record.files}
    for folder in folders:
        for name in storage.list(folder):
            if name not in named and attempt_of(name) in over:
                with best_effort(f"{folder}/{name}"):
                    storage.delete_tree(f"{folder}/{name}")
