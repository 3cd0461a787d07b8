"""Past files of an edge: Spark's log no longer needs to name them.

They are left out of the log when an attempt begins (R4, R7). No Spark runs here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.graph import JobEdge
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Batch, Open, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.vertex_inputs import EdgeInput, past_inputs
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, WrappedStorage, crash_points
from tests.spark.compacted_folder import NEWEST, check_spark_folder, offsets_of, write_folder

LOG = "v/sources/live"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return write_folder(open_storage(tmp_path))


def past(*, below: int, offset: int = NEWEST) -> PastFiles:
    """Return the past files of an edge whose producer's log begins with the file of batch ``below``."""
    return PastFiles(offset, ("in/",), frozenset(f"in/{file}" for file in range(below, NEWEST + 1)))


def numbers_in(storage: Storage, name: str, log: str = LOG) -> list[int]:
    version, *lines = storage.read(f"{log}/{name}").decode().splitlines()
    assert version == "v1"
    return [int(json.loads(line)["batchId"]) for line in lines]


def test_r7_past_files_are_left_out_and_every_entry_stays(storage: Storage) -> None:
    before = {name: storage.read(f"{LOG}/{name}") for name in storage.list(LOG)}
    past(below=27).forget(storage, LOG)
    assert {*storage.list(LOG)} == before.keys()
    compacted = {9: [], 19: [], 29: [*range(27, 30)], 39: [*range(27, 40)]}
    assert {number: numbers_in(storage, f"{number}.compact") for number in compacted} == compacted
    for name in before.keys() - {f"{number}.compact" for number in compacted}:
        assert storage.read(f"{LOG}/{name}") == before[name]
    lines = [{*text.splitlines()} for text in (storage.read(f"{LOG}/39.compact"), before["39.compact"])]
    assert lines[0] < lines[1]  # unchanged lines of Spark
    check_spark_folder(storage, NEWEST, restores=False)
    check_spark_folder(storage, 34, restores=True)


def test_r2_files_of_a_planned_batch_stay_in_the_log(storage: Storage) -> None:
    """The batch may run again, with the files that the log names."""
    past(below=NEWEST, offset=34).forget(storage, LOG)
    assert numbers_in(storage, "39.compact") == [*range(35, 40)]


def test_r7_files_of_an_unknown_producer_stay_in_the_log(storage: Storage) -> None:
    PastFiles(NEWEST, ("in", "in/1"), frozenset()).forget(storage.child("another"), "nothing")
    PastFiles(NEWEST, ("elsewhere/",), frozenset()).forget(storage, LOG)
    assert numbers_in(storage, "39.compact") == [*range(40)]


def test_r4_a_shortened_log_can_be_rewound_to_a_checkpoint(storage: Storage) -> None:
    past(below=27).forget(storage, LOG)
    SparkFolder(storage, "v").rewind(34, ["live"])
    assert SeenFiles(storage, LOG).advance(100) == {f"in/{file}" for file in range(27, 35)}
    past(below=31, offset=34).forget(storage, LOG)
    assert SeenFiles(storage, LOG).advance(100) == {f"in/{file}" for file in range(30, 35)}  # 30 on: later entries


def test_a_log_without_past_files_is_not_written(storage: Storage) -> None:
    verbs = Verbs()
    counted = WrappedStorage(storage, verbs)
    past(below=27).forget(counted, LOG)
    first = verbs.count
    assert first > 0
    past(below=27).forget(counted, LOG)
    past(below=0).forget(counted, "v/sources/topic")
    assert verbs.count == first


def test_a_damaged_log_is_refused_by_name(storage: Storage) -> None:
    storage.replace(f"{LOG}/39.compact", b'v1\n{"path":"file:///in/1","timest')
    with pytest.raises(SparkFolderLostError, match=r"39\.compact is not what Spark wrote"):
        past(below=27).forget(storage, LOG)


def unfit(base: Path, path: str) -> list[str]:
    storage = open_storage(base)
    files = [f"{path}/{name}" for name, _ in storage.files(path) if not name.rpartition("/")[2].startswith(".")]
    return [name for name in files if not checksum.is_as_written(storage, name, storage.read(name))]


OPENS: list[Numbered] = [(number, Open(AttemptId(number + 1, 0, "x"), number + 1, f"{number}")) for number in range(3)]


def begin_attempt(storage: Storage, epoch: int) -> SparkFolder:
    attempt, folders = AttemptId(epoch, 0, "x"), AttemptFolders(storage, "spark")
    return folders.create(attempt, folders.previous(OPENS, attempt), past={"live": past(below=27)})


def first_attempt(storage: Storage) -> Storage:
    write_folder(storage)
    folder = SparkFolder(storage, f"spark/{AttemptId(1, 0, 'x')}")
    folder.copy_from(SparkFolder(storage, "v"))
    AttemptFolders(storage, "spark").create(AttemptId(1, 0, "x"), None)
    return storage


def test_r8_the_previous_folder_keeps_its_log(tmp_path: Path) -> None:
    """The previous attempt may be alive, and on a local disk both folders share the file."""
    storage = first_attempt(open_storage(tmp_path))
    folder = begin_attempt(storage, 2)
    before = f"spark/{AttemptId(1, 0, 'x')}/sources/live"
    assert numbers_in(storage, "39.compact", before) == [*range(40)]
    assert numbers_in(storage, "39.compact", f"{folder.path}/sources/live") == [*range(27, 40)]
    assert unfit(tmp_path, folder.path) == []


def test_r8_a_crash_while_shortening_the_log_leaves_no_damaged_folder(tmp_path: Path) -> None:
    verbs = Verbs()
    begin_attempt(CrashingStorage(first_attempt(open_storage(f"memory://{tmp_path}/whole")), verbs=verbs), 2)
    behind_the_copy = verbs.count - 6  # four entries and the marker
    for at, when in [point for point in crash_points(verbs.count) if point[0] > behind_the_copy]:
        inner = first_attempt(open_storage(f"memory://{tmp_path}/{at}-{when}"))
        with pytest.raises(SimulatedCrash):
            begin_attempt(CrashingStorage(inner, at, when), 2)
        folder = begin_attempt(inner, 3)
        AttemptFolders(inner, "spark").refuse_lost(
            AttemptId(3, 0, "x"), Batch(NEWEST, offsets_of(NEWEST)), restores=False
        )
        assert numbers_in(inner, "39.compact", f"{folder.path}/sources/live") == [*range(27, 40)]


# ---- which files are past


EDGE = JobEdge("a__v", "a", "v", "v")
PARTITIONS = ("a/0/partition", "a/1/partition")


class Consumer:
    """A consumer of two producers, each of which has published ten batches."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.logs = [self.published(partition) for partition in PARTITIONS]

    def published(self, partition: str) -> SubtaskLog:
        log = SubtaskLog(self.storage, f"{partition}/log")
        log.load()
        log.open(AttemptId(1, 0, "a"))  # entry 0
        for number in range(1, 11):
            log.append_batch(Batch(number, {}, files=(PartitionFile(f"a__v/data/ü {number}/part-0.parquet", 1),)))
        return log

    def edges(self, epoch: int, read: int) -> list[EdgeInput]:
        """Return the edges of the next attempt."""
        feed = EdgeFeed(self.storage, f"{PARTITIONS[0]}/a__v", *PARTITIONS, attempt=AttemptId(epoch, 0, "x"))
        return [
            EdgeInput(EDGE, log, ChannelFeed(feed, partition), read=read, source=EDGE.uid)
            for log, partition in zip(self.logs, PARTITIONS, strict=True)
        ]

    def path(self, number: int, batch: int) -> str:
        return self.storage.full_uri(f"{PARTITIONS[number]}/a__v/data/ü {batch}/part-0.parquet").partition("///")[2]

    def past(self, edges: list[EdgeInput], number: int) -> list[int]:
        """Return the batches of a producer whose file is past at the beginning of the attempt."""
        by_edge = past_inputs(edges, Batch(0, {EDGE.uid: '{"logOffset":3}'}))
        (files,) = by_edge.values() if by_edge else (PastFiles(-1, (), frozenset()),)
        log = f"log-{number}"
        for batch in range(1, 11):
            line = json.dumps({"path": f"file:///{self.path(number, batch)}", "timestamp": 1, "batchId": 0})
            with_it = self.storage.read(f"{log}/9.compact").decode() if batch > 1 else "v1"
            self.storage.replace(f"{log}/9.compact", f"{with_it}\n{line}".encode())
        files.forget(self.storage, log)
        left = SeenFiles(self.storage, log).advance(9)
        return [batch for batch in range(1, 11) if self.path(number, batch) not in left]


@pytest.fixture
def consumer(tmp_path: Path) -> Consumer:
    return Consumer(open_storage(tmp_path))


def test_r7_a_file_is_past_once_its_producers_log_is_truncated(consumer: Consumer) -> None:
    """An attempt that restores a retained checkpoint is fed the entries that the log still has (R4)."""
    consumer.logs[0].forget(6, kept={2})
    edges = consumer.edges(1, read=9)
    assert consumer.past(edges, 0) == [1, 3, 4, 5]
    assert consumer.past(edges, 1) == []


def test_r7_a_file_named_by_the_feed_is_not_past(consumer: Consumer) -> None:
    """The file was read, and the feed has not compacted since. Spark would find it in the feed and read it again."""
    before = consumer.edges(1, read=0)
    for position, record in consumer.logs[0].records(4):
        assert isinstance(record, Batch)
        before[0].feed.add(position, record)
    consumer.logs[0].forget(6, kept=())
    assert consumer.past(consumer.edges(2, read=9), 0) == [1, 2, 3]


def test_r8_no_file_is_past_if_the_known_log_ends_before_the_read_position(consumer: Consumer) -> None:
    """Another process writes the log. Its later entries would count as truncated."""
    consumer.logs[0].forget(6, kept=())
    assert consumer.past(consumer.edges(1, read=11), 0) == [1, 2, 3, 4, 5]
    assert consumer.past(consumer.edges(2, read=12), 0) == []


def test_no_file_is_past_before_a_batch_was_published(consumer: Consumer) -> None:
    consumer.logs[0].forget(6, kept=())
    assert past_inputs(consumer.edges(1, read=0), None) == {}
