"""The files that a file source has read, from Spark's log of the source, including compacted entries (R2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.spark.query.sources.reader import StreamReader
from airflow_provider_ckpt.sparkfiles import seen_files
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, log_offset, normal_path, rewind_log
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import World


def test_files_of_all_batches_are_found_after_a_compaction(spark: SparkSession, world: World, tmp_path: Path) -> None:
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


def test_r2_a_compacted_entry_replaces_deleted_entries(tmp_path: Path) -> None:
    """Batch 9 is planned and compacted. Batch 8 is the last published batch. The earlier entries are purged."""
    storage = open_storage(tmp_path)
    write(storage, "8", 8)
    write(storage, "9.compact", *range(10))
    seen = SeenFiles(storage, "s")
    assert seen.advance(8) == {f"d/{n} .parquet" for n in range(9)}
    assert seen.advance(9) == {"d/9 .parquet"}


def test_r2_only_new_files_of_a_compacted_entry_are_returned(tmp_path: Path) -> None:
    """A compacted entry names every file of the source, and is read at every tenth batch.

    Files of a batch stay in their order. A file that is named several times is returned as often.
    """
    storage = open_storage(tmp_path)
    lines = [f'{{"path":"file:///d/{file}","timestamp":1,"batchId":{batch}}}' for batch, file in NAMED]
    storage.create("s/19.compact", "\n".join(["v1", "no line of Spark's", *lines, ""]).encode())
    seen = SeenFiles(storage, "s")
    seen.skip_to(17)
    assert seen.planned(18) == ["file:///d/b", "file:///d/a", "file:///d/b"]
    seen.skip_to(18)
    assert seen.planned(19) == ["file:///d/a", "file:///d/c"]
    with pytest.raises(SparkFolderLostError, match=r"19\.compact is not what Spark wrote"):
        SeenFiles(storage, "s").planned(19)


@pytest.mark.parametrize("files", [1, 700])
def test_r2_only_the_end_of_a_long_compacted_entry_is_read(tmp_path: Path, files: int) -> None:
    class Metered(WrappedStorage):
        read_bytes = 0

        def read(self, path: str) -> bytes:
            data = super().read(path)
            self.read_bytes += len(data)
            return data

        def read_range(self, path: str, start: int, end: int) -> bytes:
            data = self.inner.read_range(path, start, end)
            self.read_bytes += len(data)
            return data

    def taken(batch: int) -> list[str]:
        return [f"file:///{'d' * 200}/{batch}-{number}" for number in range(files if batch == 4999 else 1)]

    storage = Metered(open_storage(tmp_path))
    everything = [(batch, uri) for batch in range(5000) for uri in taken(batch)]
    lines = [json.dumps({"path": uri, "timestamp": 1, "batchId": batch}) for batch, uri in everything]
    entry = "\n".join(["v1", *lines]).encode()
    storage.create("s/4999.compact", entry)
    seen = SeenFiles(storage, "s")
    seen.skip_to(4998)
    assert seen.planned(4999) == taken(4999)
    assert storage.read_bytes < (70_000 if files == 1 else len(entry))
    assert SeenFiles(storage, "s").planned(4999) == [uri for _, uri in everything]


def test_a_log_has_grown_if_it_is_long_and_multiplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that the producer's log still names stay in Spark's log, so an attempt may begin with a long one."""
    storage, line = open_storage(tmp_path), len(json.dumps({"path": "file:///d/10%20.parquet"}))
    monkeypatch.setattr(seen_files, "GROWN", 40 * line)

    def grown_offsets(storage: Storage, *begins_with: int) -> list[int]:
        write(storage, "9.compact", *begins_with, 9)
        seen, grown_at = SeenFiles(storage, "s"), []
        for offset in range(9, 100):
            if offset > 9:
                compact = offset % 10 == 9
                write(storage, f"{offset}.compact" if compact else f"{offset}", *(range(offset + 1) if compact else ()))
            seen.advance(offset)
            grown_at += [offset] if seen.has_grown() else []
            assert not seen.has_grown()
        return grown_at

    assert grown_offsets(storage.child("short")) == [29, 39, 49, 59, 69, 79, 89, 99]
    assert grown_offsets(storage.child("long"), *[7] * 20) == [89, 99]


NAMED = [(17, "a"), (18, "b"), (18, "a"), (18, "b"), (19, "a"), (19, "c")]


def test_an_entry_without_files_is_read_as_empty(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.create("s/0", b"v1")
    storage.create("s/1", b"")
    assert SeenFiles(storage, "s").planned(1) == []


def test_r4_a_log_is_rewound_to_an_offset_across_a_compaction(tmp_path: Path) -> None:
    for offset in (-1, 0, 7, 9, 12, 14):
        storage = open_storage(tmp_path / str(offset))
        write(storage, "9.compact", *range(10))
        for number in range(10, 19):
            write(storage, str(number), number)
        write(storage, "19.compact", *range(20))
        rewind_log(storage, "s", offset)
        newest = max((int(name.partition(".")[0]) for name in storage.list("s")), default=-1)
        assert newest == offset
        assert SeenFiles(storage, "s").advance(1000) == {f"d/{n} .parquet" for n in range(offset + 1)}


def test_advancing_to_a_known_offset_returns_no_files(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    write(storage, "0", 0)
    seen = SeenFiles(storage, "s")
    assert seen.advance(0)
    assert seen.advance(0) == set()
    assert seen.advance(-1) == set()


def test_a_source_without_a_log_has_read_no_files(tmp_path: Path) -> None:
    assert SeenFiles(open_storage(tmp_path), "s").advance(3) == set()


def test_the_offset_of_an_unread_source_is_below_zero() -> None:
    assert (log_offset(None), log_offset('{"logOffset":4}')) == (-1, 4)


def test_paths_are_compared_without_scheme_and_escapes() -> None:
    assert normal_path("file:///a%20b/c") == normal_path("file:/a%20b/c") == normal_path("/a b/c") == "a b/c"
