"""A vertex's progress on its edges (R2, R7, R24), read from Spark's logs. No Spark runs here."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.streaming.streaming_runner_factory import StreamingRunnerFactory
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.feed_entry import encode
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.storage.layout import partition_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError
from airflow_provider_ckpt.subtasklog.input_gate import InputGate, TakeSnapshot
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.vertex_inputs import EdgeInput, Inputs
from tests.support.partition_folders import feed_folder
from tests.support.single_channel_feed import SingleChannelFeed

EDGE = JobEdge("a__v", "a", "v", "v")
PART = "a__v/data/0001-x-0-n/part-0.parquet"


class Reading:
    """A consumer of one edge whose producer has published a batch at position 1, followed by a barrier."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.log = SubtaskLog(storage, "log")
        self.log.load()
        self.log.open(AttemptId(1, 0, "a"))
        self.log.append_batch(Batch(0, {}, files=(PartitionFile(PART, 1),)))
        self.log.barrier(1, 1)
        feed = SingleChannelFeed(storage, feed_folder("p", [EDGE.uid], EDGE.uid), "p", attempt=AttemptId(1, 0, "x"))
        self.edge = EdgeInput(EDGE, self.log, feed)
        gate = InputGate([EDGE.uid], epoch=1, aligned=True)
        self.inputs = Inputs({EDGE.uid: self.edge}, {}, gate, lambda uid: SeenFiles(storage, f"sources/{uid}"))

    def pull(self) -> list[int]:
        """Feed all readable entries; return the checkpoints for which a snapshot is due."""
        due = []
        for action in self.inputs.pull(0.0):
            if isinstance(action, TakeSnapshot):
                due.append(action.checkpoint)
            self.inputs.carry_out(action)
        return due

    def committed(self) -> None:
        """Write the log of a batch that Spark has read from the feed and committed."""
        entry = {"path": self.storage.spark_uri(f"p/{PART}"), "timestamp": 1, "batchId": 0}
        self.storage.create(f"sources/{EDGE.uid}/0", f"v1\n{json.dumps(entry)}".encode())
        self.inputs.advance({EDGE.uid: '{"logOffset":0}'})


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(open_storage(tmp_path))


def test_r7_a_position_does_not_pass_fed_and_unread_files(reading: Reading) -> None:
    reading.pull()
    assert reading.edge.passed == 2
    assert reading.inputs.positions() == {EDGE.uid: 0}
    reading.committed()
    assert reading.inputs.positions() == {EDGE.uid: 2}


def test_r2_an_edge_ends_when_all_fed_files_are_read(reading: Reading) -> None:
    reading.log.end_of_data("finish")
    reading.log.end_of_partition()
    reading.inputs.gate.snapshotted(1)
    reading.pull()
    assert reading.edge.ended
    assert reading.inputs.ended() == frozenset()
    reading.committed()
    assert reading.inputs.ended() == {EDGE.uid}


def test_r24_an_aligned_snapshot_waits_for_an_unpublished_batch(reading: Reading) -> None:
    """Spark has read the files of the batch. A snapshot at this moment would omit them on both sides of the barrier."""
    assert reading.pull() == []
    reading.committed()
    assert reading.pull() == []
    reading.inputs.published()
    assert reading.pull() == [1]


@pytest.mark.parametrize(("restores", "offered"), [(True, 1), (False, 2)], ids=["gone back", "going on"])
def test_r7_a_partly_read_entry_is_fed_again_after_a_restore(reading: Reading, restores: bool, offered: int) -> None:
    """After a restore the feed is empty. Spark's own log names the files that were read, so they are not read twice."""
    graph = JobGraph(tuple(JobVertex(uid, (uid,), (), (), (), bounded=True) for uid in ("a", "v")), (EDGE,))
    consumer = SubtaskLog(reading.storage, "log-v")
    consumer.load()
    consumer.open(AttemptId(1, 0, "v"))
    consumer.append_batch(Batch(0, {}, inputs={EDGE.uid: 2}))
    nothing: Any = None
    context = RunContext(
        nothing, reading.storage, nothing, "job", graph, nothing, 2, post=nothing, check_fenced=nothing
    )
    feed = SingleChannelFeed(
        reading.storage,
        feed_folder(partition_path("job", "a", 0), [EDGE.uid], EDGE.uid),
        "p",
        attempt=AttemptId(1, 0, "x"),
    )
    feed.add(1, Batch(0, {}, files=(PartitionFile(PART, 1),)))
    logs = {SubtaskId("a/0"): reading.log, SubtaskId("v/0"): consumer}
    factory = StreamingRunnerFactory(
        context, logs, {}, {}, {}, {}, log_of=functools.partial(CurrentLog, logs), aligned=False, aligned_timeout=None
    )
    edges = factory._edges(SubtaskId("v/0"), AttemptId(2, 0, "v"), VertexPlan(0, ()), fresh=restores)
    assert edges[EDGE.uid].offered == offered


def next_feed(storage: Storage) -> SingleChannelFeed:
    return SingleChannelFeed(storage, feed_folder("p", [EDGE.uid], EDGE.uid), "p", attempt=AttemptId(2, 0, "x"))


def feed_entry(reading: Reading, number: int) -> str:
    assert isinstance(reading.edge.feed, SingleChannelFeed)
    return f"{reading.edge.feed.edge._path}/_spark_metadata/{number}"


@pytest.mark.parametrize("content", [None, encode([], "p")], ids=["gone", "empty"])
def test_a_read_batch_is_not_unread_after_the_feed_lost_its_entry(reading: Reading, content: bytes | None) -> None:
    reading.pull()
    reading.committed()
    reading.storage.delete(feed_entry(reading, 1))
    if content is not None:
        reading.storage.create(feed_entry(reading, 1), content)
    feed, (batch,) = (
        next_feed(reading.storage),
        [record for _, record in reading.log.records() if isinstance(record, Batch)],
    )
    assert feed.fed == -1
    feed.note_partly_read(batch)
    feed.consume(SeenFiles(reading.storage, f"sources/{EDGE.uid}").advance(0))
    feed.add(1, batch)
    assert not feed.has_unread()


@pytest.mark.parametrize("content", [None, b"", b'v1\n{"path'], ids=["gone", "emptied", "cut"])
def test_a_feed_with_a_missing_entry_is_refused_by_name(reading: Reading, content: bytes | None) -> None:
    """The lost entry is older than the newest fed one, so its files would never be read."""
    reading.pull()
    reading.edge.feed.add(9, Batch(1, {}, files=(PartitionFile("later", 1),)))
    reading.storage.delete(feed_entry(reading, 1))
    if content is not None:
        reading.storage.create(feed_entry(reading, 1), content)
    with pytest.raises(SparkFolderLostError, match="_spark_metadata/1 is "):
        next_feed(reading.storage)


def test_a_file_is_found_under_a_root_with_an_escaped_looking_path(tmp_path: Path) -> None:
    reading = Reading(open_storage(tmp_path / "a%20b é"))
    reading.storage.create(f"p/{PART}", b"1")
    reading.pull()
    assert isinstance(reading.edge.feed, SingleChannelFeed)
    (path,) = reading.edge.feed.edge._lines
    reading.edge.feed.refuse_damaged([path])
    reading.storage.delete(f"p/{PART}")
    with pytest.raises(PartitionFilesDamagedError):
        reading.edge.feed.refuse_damaged([path])


def test_r21_a_query_with_a_changed_plan_reads_its_new_producers(reading: Reading) -> None:
    """The new producers are read from their first entry on, and known ones continue.

    A dropped producer does not return.
    """
    parts = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), bounded=True, splits=True)
    edge, gone = JobEdge("parts__v", "parts", "v", "v"), JobEdge("a__v", "a", "v", "v")
    consumer_of_both = JobVertex("v", ("v",), (), (), (), bounded=True)
    graph = JobGraph((parts, JobVertex("a", ("a",), (), (), (), True, splits=True), consumer_of_both), (edge, gone))
    nothing: Any = None
    context = RunContext(nothing, reading.storage, nothing, "job", graph, nothing, 2, nothing, nothing)
    consumer = SubtaskLog(reading.storage, "v")
    consumer.load()
    consumer.open(AttemptId(2, 0, "v"))
    logs = {SubtaskId("parts/0"): reading.log, SubtaskId("a/0"): reading.log, SubtaskId("v/0"): consumer}
    factory = StreamingRunnerFactory(
        context, logs, {}, {}, {}, {}, log_of=functools.partial(CurrentLog, logs), aligned=False, aligned_timeout=None
    )
    subtask, attempt = SubtaskId("v/0"), AttemptId(2, 0, "v")
    edges = factory._edges(subtask, attempt, VertexPlan(0, ()), fresh=False)
    inputs = Inputs(edges, {}, InputGate(edges, epoch=2), lambda uid: SeenFiles(reading.storage, uid))
    before = dict(inputs.edges)
    factory._add_channels(subtask, inputs, VertexPlan(1, (gone.uid,), {"parts": 3, "a": 2}))
    assert set(inputs.edges) - set(before) == {"parts__v/1", "parts__v/2"}
    assert all(inputs.edges[key] is edge for key, edge in before.items())
    new = inputs.edges["parts__v/2"]
    assert (new.offered, new.read, new.ended, new.log.records()) == (0, 0, False, [])
    assert inputs.edge_sources == {"parts__v", "a__v"}
    factory._add_channels(subtask, inputs, VertexPlan(2, (gone.uid,), {"parts": 3, "a": 2}))
    assert inputs.edges["parts__v/2"] is new
