"""Spark folder with many batches and a compacted log of a source."""

from __future__ import annotations

import json

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.folder_check import FolderCheck
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch

NEWEST = 45
"""Number of the newest batch; each batch has read one file."""


def write_folder(storage: Storage, newest: int = NEWEST) -> Storage:
    """Write a folder as Spark leaves it, and return the storage.

    It has the plans and commits of all batches, and the log of a source that was compacted four times. The source
    "topic" keeps another kind of file under a number.
    """
    put_file(storage, "metadata", json.dumps({"id": "q"}))
    put_file(storage, "sources/topic/0", 'v1\n{"topic":{"0":3}}')
    for number in range(newest + 1):
        run_batch(storage, number)
    return storage


def run_batch(storage: Storage, number: int) -> None:
    lines = [
        json.dumps({"path": f"file:///in/{file}", "timestamp": file, "batchId": file}) for file in range(number + 1)
    ]
    if (number + 1) % 10 == 0:
        put_file(storage, f"sources/live/{number}.compact", "\n".join(["v1", *lines]))
    else:
        put_file(storage, f"sources/live/{number}", "\n".join(["v1", lines[-1]]))
    plan = [f"{source}:{offset}" for source, offset in offsets_of(number).items()]
    put_file(storage, f"offsets/{number}", "\n".join(["v2", '{"batchWatermarkMs":0}', *plan]))
    put_file(storage, f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')


def put_file(storage: Storage, name: str, text: str) -> None:
    checksum.create(storage, f"v/{name}", text.encode())


def offsets_of(number: int) -> dict[str, str]:
    return {"live": json.dumps({"logOffset": number}), "topic": '{"topic":{"0":7}}', "own": f"at-{number}"}


def check_spark_folder(storage: Storage, batch: int, *, restores: bool) -> None:
    """Check the folder for an attempt that resumes from the batch or, with ``restores``, goes back to it.

    Raises SparkFolderLostError if the folder lacks a file for that.
    """
    FolderCheck(SparkFolder(storage, "v"), Batch(batch, offsets_of(batch)), restores=restores).run()
