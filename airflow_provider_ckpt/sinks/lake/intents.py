"""The log of a sink's intents, in the table's folder. An intent fixes what a release commits, before the commit."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING, sink_folder
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile
from airflow_provider_ckpt.sinks.numbered_log import NumberedLog
from airflow_provider_ckpt.storage.storage import Storage

INTENT = "lake-intent"
VERSION = 1

Change = Literal["append", "replace", "upsert"]


@dataclass(frozen=True)
class Intent:
    """One release of one sink, with all data for its commit, so that any process can make the commit.

    ``overwrites``: number of earlier releases of all jobs that replaced the table's rows.
    """

    job: str
    sink: str
    checkpoint: Count
    table: str
    change: Change
    overwrites: Count
    rows: Count
    batches: tuple[str, ...]
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    key: tuple[str, ...]
    files: tuple[LakeFile, ...]

    @property
    def size(self) -> int:
        """Total size of the released files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def overwrites_after(self) -> int:
        return self.overwrites + (self.change == "replace")


class IntentLog(NumberedLog[Intent]):
    """The intents of one sink. An intent is appended only when the table contains all earlier intents."""

    def __init__(self, storage: Storage, job_id: str, uid: str) -> None:
        folder = f"{BOOKKEEPING}/{sink_folder(job_id, uid)}/intents"
        super().__init__(storage, folder, INTENT, VERSION, functools.partial(from_json, Intent), to_json)

    def append_as(self, number: int, intent: Intent) -> bool:
        """Append an intent as entry ``number``. Return False if that entry exists; then call :meth:`catch_up`."""
        with self.lock:
            return self.length() == number and self.append(intent)

    def batches(self, since: int, end: int) -> set[str]:
        """Return the ids of the batches in the entries from ``since`` up to ``end`` (exclusive)."""
        return {batch for number in range(since, end) for batch in self.entry(number).batches}
