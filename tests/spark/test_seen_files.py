"""What a file source has taken, read off Spark's log of it, compact entries included (R2)."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.spark.query.reader import StreamReader
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, forget_after, log_offset, normal_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.spark.harness import World


def test_every_batch_of_a_real_source_is_found_also_behind_compaction(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.put_ids("history", 12, 1)
    reader = StreamReader(spark, "history", None)
    frame = reader.option("maxFilesPerTrigger", 1).schema("id long, k long").parquet(world.path("history"))

    def nothing(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("noop").mode("overwrite").save()

    query = frame.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.foreachBatch(nothing).start().awaitTermination()
    storage = open_storage(tmp_path / "c")
    assert any(name.endswith(".compact") for name in storage.list("sources/history"))
    seen = SeenFiles(storage, "sources/history")
    one_by_one = [seen.advance(offset) for offset in range(12)]
    assert [len(paths) for paths in one_by_one] == [1] * 12
    everything = set().union(*one_by_one)
    assert {Path(path).name for path in everything} == {f"{n:06d}.parquet" for n in range(12)}
    assert SeenFiles(storage, "sources/history").advance(11) == everything
    assert SeenFiles(storage, "sources/history").advance(4) == set().union(*one_by_one[:5])


def write(storage: Storage, name: str, *batches: int) -> None:
    lines = [json.dumps({"path": f"file:///d/{b}%20.parquet", "timestamp": 1, "batchId": b}) for b in batches]
    storage.create(f"s/{name}", "\n".join(["v1", *lines]).encode())


def test_r2_a_compact_entry_of_a_planned_batch_stands_for_those_that_spark_deleted(tmp_path: Path) -> None:
    """Batch 9 is planned and compacted, 8 is the last published one, and the entries before are purged."""
    storage = open_storage(tmp_path)
    write(storage, "8", 8)
    write(storage, "9.compact", *range(10))
    seen = SeenFiles(storage, "s")
    assert seen.advance(8) == {f"d/{n} .parquet" for n in range(9)}
    assert seen.advance(9) == {"d/9 .parquet"}


def test_r4_a_log_goes_back_to_an_offset_also_over_a_compaction(tmp_path: Path) -> None:
    for offset in (-1, 0, 7, 9, 12, 14):
        storage = open_storage(tmp_path / str(offset))
        write(storage, "9.compact", *range(10))
        for number in range(10, 19):
            write(storage, str(number), number)
        write(storage, "19.compact", *range(20))
        forget_after(storage, "s", offset)
        newest = max((int(name.partition(".")[0]) for name in storage.list("s")), default=-1)
        assert newest == offset
        assert SeenFiles(storage, "s").advance(1000) == {f"d/{n} .parquet" for n in range(offset + 1)}


def test_an_offset_that_was_read_gives_nothing_new(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    write(storage, "0", 0)
    seen = SeenFiles(storage, "s")
    assert seen.advance(0)
    assert seen.advance(0) == set()
    assert seen.advance(-1) == set()


def test_a_source_without_a_log_has_taken_nothing(tmp_path: Path) -> None:
    assert SeenFiles(open_storage(tmp_path), "s").advance(3) == set()


def test_the_offset_of_a_source_that_has_taken_nothing_is_below_zero() -> None:
    assert (log_offset(None), log_offset('{"logOffset":4}')) == (-1, 4)


def test_paths_are_compared_without_scheme_and_escapes() -> None:
    assert normal_path("file:///a%20b/c") == normal_path("file:/a%20b/c") == normal_path("/a b/c") == "a b/c"
