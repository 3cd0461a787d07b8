"""Edges with a long history.

Spark's log of the edge is shortened, and no row is read twice or missed (R4, R7).
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.jobmaster.retention import retention
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.spark.query.sources.reader import NEVER_FORGOTTEN
from airflow_provider_ckpt.sparkfiles import seen_files
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from tests.spark.faults import HookedStorage, at_prepared, fail_prepared
from tests.spark.fed_partition import FedPartition, flat
from tests.spark.harness import World
from tests.spark.jobs import IDS
from tests.support.single_channel_feed import SingleChannelFeed

pytestmark = pytest.mark.slow

FILES = 24


def lines(log: Path, number: int) -> list[str]:
    return (log / f"{number}.compact").read_text().splitlines()


def read(partition: FedPartition, feed: SingleChannelFeed) -> list[int]:
    return flat(partition.read(feed, maxFilesPerTrigger=1, maxFileAge=NEVER_FORGOTTEN))


def read_for_long(partition: FedPartition) -> list[str]:
    """Read all files of the edge; return the newest compacted entry of Spark's log."""
    feed = partition.feed()
    for start in range(0, FILES, 8):  # the feed drops read files when it compacts
        for position in range(start, start + 8):
            feed.add(position, partition.write(position))
        assert read(partition, feed) == [*range(start, start + 8)]
        feed.consume(partition.taken())
    return lines(partition.base / "c_a__x/sources/a__x", 19)


def test_r7_spark_continues_a_shortened_log_and_compacts_the_rest(partition: FedPartition) -> None:
    """Spark compacts at the same numbers. The new entry has the remaining lines and Spark's own lines."""
    before = read_for_long(partition)
    successor = partition.feed()
    kept = successor.possible_paths([partition.batches[FILES - 1]])
    for position in range(FILES - len(kept)):
        (partition.base / "p" / partition.batches[position].files[0].path).unlink()
    folder = open_storage(partition.base / "c_a__x")
    PastFiles(FILES - 1, (successor.folder,), kept).forget(folder, "sources/a__x")
    log = partition.base / "c_a__x/sources/a__x"
    left = lines(log, 19)
    assert 1 < len(left) < len(before)
    assert left == [before[0], *(line for line in before[1:] if line in left)]
    successor.consume(partition.taken())
    assert not successor.has_unread()

    for position in range(FILES, 42):
        successor.add(position, partition.write(position))
    assert read(partition, successor) == [*range(FILES, 42)]
    names = {path.name for path in log.glob("*.compact")}
    assert {"29.compact", "39.compact"} <= names <= {f"{number}.compact" for number in (9, 19, 29, 39)}
    after = lines(log, 39)
    assert after[: len(left)] == left
    assert [json.loads(line)["batchId"] for line in after[len(left) :]] == [*range(20, 40)]
    assert read(partition, partition.feed()) == []


def test_a_file_left_out_of_the_log_and_fed_again_is_read_twice(partition: FedPartition) -> None:
    """Therefore the log keeps every file that can be fed again, whether it was read or not."""
    read_for_long(partition)
    folder = open_storage(partition.base / "c_a__x")
    successor = partition.feed()
    PastFiles(FILES - 1, (successor.folder,), frozenset()).forget(folder, "sources/a__x")
    again = read(partition, successor)
    assert again
    assert set(again) < set(range(FILES))


def edged(world: World, *, keeps_state: bool = False) -> Job:
    job = Job("edged")

    @job.source(max_files_per_trigger=1, chain=False)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[live])
    def doubled(rows: DataFrame) -> DataFrame:
        return (rows.dropDuplicates(["id"]) if keeps_state else rows).withColumn("twice", F.col("id") * 2)

    job.sink("out", doubled, FileSink(world.path("out")))
    return job


def compacted(world: World) -> dict[int, list[int]]:
    """Return the compacted entries in the consumer's newest folder.

    Number of the entry -> batches of the files that it names.
    """
    folders = sorted((world.root / "job/vertices/doubled/0/spark").glob("*/sources/live__doubled"))
    numbers = [int(path.name.partition(".")[0]) for path in folders[-1].glob("*.compact")]
    return {number: [json.loads(line)["batchId"] for line in lines(folders[-1], number)[1:]] for number in numbers}


def newest_attempt(world: World, vertex: str) -> AttemptId:
    attempts = (AttemptId.find(path.name) for path in (world.root / f"job/vertices/{vertex}/0/spark").iterdir())
    return max(attempt for attempt in attempts if attempt is not None)


def test_r4_runs_and_a_restore_on_a_shortened_log_repeat_no_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "TRUNCATE_AT", 4)
    expected = world.put_ids("live", FILES, 1)

    def stop_at_all() -> None:
        stop = world.ask("stop", lambda: world.released_count() >= len(expected))
        run = world.run(edged(world), stop, retained_checkpoints=2)
        assert (run.status, run.cause) == ("STOPPED", None)
        assert world.released_ids() == sorted(expected)

    stop_at_all()
    expected |= world.put_ids("live", FILES, 1, 1000)
    stop_at_all()
    entries = compacted(world)
    assert entries[min(entries)][0] > 0
    checkpoint = world.state().last_completed

    expected |= world.put_ids("live", 6, 1, 2000)
    storage = HookedStorage(world.storage, at_prepared("doubled", 5, fail_prepared))
    with suppress(TransientError):  # the driver publishes batches after the checkpoint and dies
        world.run(edged(world), storage=storage, checkpoint_interval=36_000, retained_checkpoints=2)
    behind = world.state().checkpoints[checkpoint].subtasks
    published = [n for n, record in world.records("doubled") if isinstance(record, Batch)]
    assert max(published) > next(snapshot.position for key, snapshot in behind.items() if key.vertex == "doubled")

    back = f"{world.root}/job/checkpoints/chk-{checkpoint}"
    stop = world.ask("stop", lambda: world.released_count() >= len(expected))
    run = world.run(edged(world), stop, restore=back, retained_checkpoints=2)
    assert (run.status, run.cause) == ("STOPPED", None)
    assert world.released_ids() == sorted(expected)
    expected |= world.put_ids("live", FILES, 1, 3000)
    stop_at_all()


@pytest.mark.parametrize("keeps_state", [False, True])
def test_r7_the_log_of_an_edge_stays_short_in_a_long_run(
    world: World, monkeypatch: pytest.MonkeyPatch, keeps_state: bool
) -> None:
    """The query resumes in its next attempt, between two batches. Nothing has failed, and other queries are unaffected.

    ``keeps_state``: half of the rows come twice, before the others.
    """
    monkeypatch.setattr(retention, "TRUNCATE_AT", 4)
    monkeypatch.setattr(seen_files, "GROWN", 9 * 150)
    monkeypatch.setattr(seen_files, "_GROWN_TIMES", 1)
    for _ in range(2 if keeps_state else 1):
        expected = world.put_ids("live", 17, 1)
    expected |= world.put_ids("live", 17, 1, 17)
    stop = world.ask("stop", lambda: world.released_count() >= len(expected))
    run = world.run(edged(world, keeps_state=keeps_state), stop, retained_checkpoints=1)
    assert (run.status, run.cause) == ("STOPPED", None)
    assert world.released_ids() == sorted(expected)
    assert (newest_attempt(world, "live").number, world.state().restarts) == (0, {})
    assert newest_attempt(world, "doubled").number > 1
    entries = compacted(world)
    assert 0 not in entries[max(entries)]  # the number of remaining lines depends on when the last attempt began


def filtered(world: World) -> Job:
    job = Job("filtered")

    @job.source(max_files_per_trigger=1, chain=False)
    def live(read: DataStreamReader) -> DataFrame:
        return read.schema(IDS).parquet(world.path("live"))

    @job.transform(inputs=[live], chain=False)
    def errors(rows: DataFrame) -> DataFrame:
        return rows.where("id >= 1000")

    @job.transform(inputs=[errors])
    def logged(rows: DataFrame) -> DataFrame:
        return rows.withColumn("twice", F.col("id") * 2)

    job.sink("all", live, FileSink(world.path("all")))
    job.sink("out", logged, FileSink(world.path("out")))
    return job


def test_r7_the_log_of_a_filter_without_output_stays_short(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that passed the filter earlier are kept, and rows that pass it later are released."""
    monkeypatch.setattr(retention, "TRUNCATE_AT", 4)
    world.put_ids("live", 1, 1, 1000)

    def run_until(rows: int, errors: int) -> list[int]:
        lengths = [0]

        def is_done() -> bool:
            lengths.append(len([record for _, record in world.records("errors") if not isinstance(record, Open)]))
            return world.released_count("all") >= rows and world.released_count() >= errors

        run = world.run(filtered(world), world.ask("stop", is_done), retained_checkpoints=1)
        assert (run.status, run.cause) == ("STOPPED", None)
        return lengths

    run_until(1, 1)
    world.put_ids("live", 2 * FILES, 1)
    assert max(run_until(2 * FILES + 1, 1)) < 2 * FILES
    world.put_ids("live", 1, 1, 2000)
    run_until(2 * FILES + 2, 2)
    assert world.released_ids() == [1000, 2000]
