"""Deletion of unpublished files of earlier attempts: staged output, data for the next vertex, and copies (R5)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.jobmaster.staged_orphans import staged_orphans
from airflow_provider_ckpt.partitions.attempts import fenced
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sinks.sink import BoundSink, attempt_of
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)


def delete_leftovers(
    storage: Storage, subtask_log: LogReader, folders: Collection[str], sinks: Mapping[str, BoundSink]
) -> None:
    """Delete unpublished files of earlier attempts.

    Only the attempt that owns the log may call this, after a check of the fence. By then it has published all that
    earlier attempts had prepared and Spark had committed. The next driver would delete the files, too. But a run may
    last for months, and a subtask may fail each hour.

    A file that cannot be deleted is logged and stays.

    Args:
        folders: the folders of data for the next vertex and of copies.
        sinks: sink -> its binding.

    Raises OvertakenError.
    """
    records = subtask_log.records()
    over = {str(one) for one in fenced(records)}
    batches = [record for _, record in records if isinstance(record, Batch)]
    named = {file.folder for batch in batches for file in batch.files}
    for folder in folders:
        with best_effort(f"what is left in {folder}"):
            left = [name for name in storage.list(folder) if name not in named and attempt_of(name) in over]
            for name in left:
                with best_effort(f"{folder}/{name}"):
                    storage.delete_tree(f"{folder}/{name}")
    handles = {str(handle["id"]) for batch in batches for handle in batch.handles.values()}
    for uid, sink in sinks.items():
        _delete_staged(uid, sink, over, handles)


def _delete_staged(uid: str, sink: BoundSink, over: Collection[str], handles: Collection[str]) -> None:
    """Delete staged output of a sink. This does not use ``collect_garbage``, because others use the sink meanwhile."""
    try:
        for one in [*staged_orphans({uid: sink}, over, handles)]:
            with best_effort(f"batch {one.path}, staged in sink {uid},"):
                sink.delete_staged([one.path])
    except OvertakenError:
        raise
    except Exception as error:  # a sink may raise anything, and the subtask must not fail because of it
        log.warning("output that earlier attempts staged in sink %s stays for now: %s", uid, error)
