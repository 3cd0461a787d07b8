"""Publications and feeds of a streaming query when the storage fails between two of them. Needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.model.graph import JobEdge
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.input_gate import InputGate
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.publication import Publication
from airflow_provider_ckpt.task.vertex_inputs import EdgeInput, Inputs
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.support.single_channel_feed import SingleChannelFeed

EDGE = JobEdge("a__v", "a", "v", "v")
OF_PRODUCER, OF_CONSUMER = AttemptId(1, 0, "a"), AttemptId(1, 0, "v")


class FailingOnce(WrappedStorage):
    """A storage that fails the first entry of a feed created while ``failing`` is set, and nothing after it."""

    failing = False

    def create(self, path: str, data: bytes) -> None:
        if self.failing and "/_spark_metadata/" in path:
            self.failing = False
            raise StorageTransientError(verb="create", uri=path, reason="Input/output error")
        super().create(path, data)


def opened(storage: Storage, path: str, attempt: AttemptId) -> SubtaskLog:
    log = SubtaskLog(storage, path)
    log.load()
    log.open(attempt)
    return log


def file(number: int) -> PartitionFile:
    return PartitionFile(f"data/{OF_PRODUCER}-{number}-n/part-0.parquet", 1)


def ignored(*_: Any, **__: Any) -> None:
    """Discard the report."""


def test_r7_a_failed_feed_stops_later_feeds(tmp_path: Path) -> None:
    """The next attempt resumes after the last entry of the feed.

    A file that is missing before it would never be read.
    """
    storage = FailingOnce(open_storage(tmp_path))
    producer = opened(storage, "a", OF_PRODUCER)
    edge = EdgeInput(EDGE, producer, SingleChannelFeed(storage, "p", "p", attempt=OF_CONSUMER), source=EDGE.uid)
    inputs = Inputs(
        {EDGE.uid: edge}, {}, InputGate([EDGE.uid], epoch=1), lambda uid: SeenFiles(storage, f"sources/{uid}")
    )
    log = opened(storage, "v", OF_CONSUMER)
    task_id = TaskId(1, SubtaskId("v/0"), OF_CONSUMER)
    publication = Publication(log, task_id, inputs, post=ignored, notify=ignored)

    producer.append_batch(Batch(0, {}, files=(file(0),)))
    publication.act_on_inputs()
    storage.failing = True
    position = producer.append_batch(Batch(1, {}, files=(file(1),)))
    with pytest.raises(StorageTransientError):
        publication.act_on_inputs()
    producer.append_batch(Batch(2, {}, files=(file(2),)))
    with pytest.raises(StorageTransientError):
        publication.act_on_inputs()

    again = SingleChannelFeed(storage, "p", "p", attempt=OF_CONSUMER.next("w"))
    assert again.fed == position - 1
