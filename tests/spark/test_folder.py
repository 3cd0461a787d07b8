"""Spark's checkpoint folder: one copy for each attempt (R8), its boundary (R2) and its final batch (R12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.checksum import is_as_written
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Open
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, WrappedStorage, crash_points
from tests.spark.harness import World

pytestmark = pytest.mark.slow


class Counts:
    """A windowed count over the folder "in" that reads one second of event time a row."""

    def __init__(self, spark: SparkSession, world: World) -> None:
        self.spark, self.world = spark, world
        self.rows: list[tuple[int, int]] = []

    def run(self, folder: SparkFolder, *, once: bool = False) -> list[tuple[int, int]]:
        """Return the (window start in seconds, count) pairs that this run emitted."""
        rows: list[tuple[int, int]] = []

        def collect(frame: DataFrame, batch_id: int) -> None:
            rows.extend((row["s"], row["n"]) for row in frame.collect())

        stream = self.spark.readStream.name("live").schema("id long").parquet(self.world.path("in"))
        timed = stream.withColumn("ts", F.timestamp_seconds("id")).withWatermark("ts", "1 second")
        windows = timed.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
        frame = windows.select(F.unix_seconds("window.start").alias("s"), "n")
        query = frame.writeStream.option("checkpointLocation", folder.location).foreachBatch(collect)
        query = query.trigger(once=True) if once else query.trigger(availableNow=True)
        query.start().awaitTermination()
        return sorted(rows)


@pytest.fixture
def counts(spark: SparkSession, world: World) -> Counts:
    return Counts(spark, world)


def put(world: World, name: str, first: int, last: int) -> None:
    world.put("in", name, [{"id": number} for number in range(first, last)])


def has_checksums(world: World, path: str) -> int:
    """Check that each file has a matching checksum and each checksum has a file. Return the number of checksums."""
    storage = open_storage(world.base)
    files = {file for file in (world.base / path).rglob("*") if file.is_file()}
    sums = {file for file in files if file.name.startswith(".") and file.name.endswith(".crc")}
    for file in files - sums:
        assert file.with_name(f".{file.name}.crc") in sums, file
        assert is_as_written(storage, str(file.relative_to(world.base)), file.read_bytes()), file
    assert {file.with_name(file.name[1:-4]) for file in sums} == files - sums
    return len([file for file in sums if not file.name.endswith(".crc.crc")])


def test_r8_an_attempt_continues_in_its_own_copy_of_the_folder(counts: Counts, world: World) -> None:
    put(world, "a", 0, 15)
    storage = open_storage(world.base)
    first = SparkFolder(storage, "v/1")
    assert counts.run(first) == [(0, 10)]
    before = storage.files("v/1")
    second = SparkFolder(storage, "v/2")
    assert second.copy_from(first) > 0
    assert has_checksums(world, "v/2") == has_checksums(world, "v/1") > 0
    put(world, "b", 15, 25)
    assert counts.run(second) == [(10, 10)]
    assert storage.files("v/1") == before
    newest = second.newest_commit()
    assert newest is not None
    assert newest > (first.newest_commit() or 0)


def test_r12_the_final_batch_fires_every_window_once(counts: Counts, world: World) -> None:
    put(world, "a", 0, 25)
    folder = SparkFolder(open_storage(world.base), "v/1")
    assert counts.run(folder) == [(0, 10), (10, 10)]
    commit = folder.newest_commit()
    assert commit is not None
    assert folder.is_at_boundary()
    planned = folder.plan_final_batch(commit, 1_700_000_000_000)
    assert (planned, folder.is_at_boundary(), folder.is_final()) == (commit + 1, False, True)
    assert folder.planned_watermark(planned) == MAX_WATERMARK
    assert counts.run(folder, once=True) == [(20, 5)]
    assert folder.is_at_boundary()
    assert has_checksums(world, "v/1") > 0
    assert counts.run(folder) == []


def test_r4_a_rewound_folder_continues_after_the_batch_with_its_state(counts: Counts, world: World) -> None:
    put(world, "a", 0, 15)
    folder = SparkFolder(open_storage(world.base), "v/1")
    counts.run(folder)
    batch = folder.newest_commit()
    assert batch is not None
    put(world, "b", 15, 25)
    assert counts.run(folder) == [(10, 10)]
    assert folder.has_batch(batch)
    assert not folder.has_batch(batch + 100)
    again = SparkFolder(open_storage(world.base), "v/2")
    again.copy_from(folder)
    again.rewind(batch)
    assert again.newest_commit() == again.newest_offsets() == batch
    assert counts.run(again) == [(10, 10)]
    assert has_checksums(world, "v/2") > 0


def test_r2_a_planned_batch_is_no_boundary_until_deleted_or_committed(world: World) -> None:
    storage = open_storage(world.base)
    folder = SparkFolder(storage, "v/1")
    assert folder.is_at_boundary()
    for name in ("offsets/0", "commits/0", "offsets/1", "offsets/.1.crc"):
        storage.create(f"v/1/{name}", b"x")
    assert (folder.newest_offsets(), folder.newest_commit(), folder.is_at_boundary()) == (1, 0, False)
    folder.delete_planned()
    assert folder.is_at_boundary()
    folder.delete_planned()
    assert folder.newest_offsets() == 0


def test_offsets_are_read_by_source_name(world: World) -> None:
    storage = open_storage(world.base)
    meta = '{"batchWatermarkMs":12,"batchTimestampMs":1,"conf":{}}'
    body = "\n".join(["v2", meta, 'history:{"logOffset":3}', "live:-"])
    storage.create("v/1/offsets/4", body.encode())
    storage.create("v/1/commits/4", b'v1\n{"nextBatchWatermarkMs":99}')
    folder = SparkFolder(storage, "v/1")
    assert folder.offsets(4) == {"history": '{"logOffset":3}'}
    assert (folder.planned_watermark(4), folder.watermark_after(4)) == (12, 99)


def test_a_copy_omits_temporary_files(world: World) -> None:
    storage = open_storage(world.base)
    for name in ("commits/0", "commits/.1.tmp", "offsets/.0.crc", "state/0/0/1.delta.uuid.tmp", "metadata"):
        storage.create(f"v/1/{name}", b"x")
    copy = SparkFolder(storage, "v/2")
    assert copy.copy_from(SparkFolder(storage, "v/1")) == 2
    assert [name for name, _ in storage.files("v/2")] == ["commits/0", "metadata"]


# ---- the folder from which an attempt resumes


def opens(*attempts: AttemptId) -> list[Numbered]:
    return [(number, Open(attempt, attempt.epoch, str(attempt))) for number, attempt in enumerate(attempts)]


def test_r8_an_incomplete_copy_is_never_used(world: World) -> None:
    """The next attempt resumes from a complete folder, whichever verb of the previous attempt crashes."""
    inner = open_storage(world.base)
    for name in ("commits/0", "commits/1", "offsets/0", "offsets/1", "metadata", "sources/live/0"):
        inner.create(f"first/0001-a/{name}", name.encode())
    first, second, third = (AttemptId(epoch, 0, "a") for epoch in (1, 2, 3))
    AttemptFolders(inner, "first").create(first, None)

    def life(storage: WrappedStorage, path: str) -> None:
        folders = AttemptFolders(storage, path)
        folders.create(second, folders.previous(opens(first, second), second))
        folders.delete_before(second)

    whole = WrappedStorage(open_storage(copied(world, "measure")))
    life(whole, "first")
    for at, when in crash_points(whole.verbs.count):
        storage = open_storage(copied(world, f"{when}-{at}"))
        with pytest.raises(SimulatedCrash):
            life(CrashingStorage(storage, at, when), "first")
        folders = AttemptFolders(storage, "first")
        previous = folders.previous(opens(first, second, third), third)
        assert previous is not None
        folder = folders.create(third, previous)
        names = [name for name, _ in folder.storage.files(folder.path)]
        assert names == ["commits/0", "commits/1", "metadata", "offsets/0", "offsets/1", "sources/live/0"], (at, when)
        folders.delete_before(third)
        assert storage.list("first") == ["0003-a", "0003-a.json"]


def copied(world: World, name: str) -> Path:
    source, target = open_storage(world.base), world.base / "copies" / name
    for path, _ in source.files("first"):
        open_storage(target).create(f"first/{path}", source.read(f"first/{path}"))
    return target


def test_the_first_attempt_has_no_previous_folder(world: World) -> None:
    folders = AttemptFolders(open_storage(world.base), "v")
    attempt = AttemptId(1, 0, "a")
    assert folders.previous(opens(attempt), attempt) is None
    assert folders.create(attempt, None).newest_commit() is None
