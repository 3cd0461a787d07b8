"""The end of a bounded file source: it is frozen once (R11), and Spark's own stream reads exactly these files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.journal.events import PlanRecorded, SourceFrozen
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition, SourceDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.sources.frozen_files import (
    FrozenFiles,
    freeze,
    list_files,
    read_frozen,
    unescaped_path,
)
from airflow_provider_ckpt.spark.query.sources.late_files import reads_of_finished
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads, StreamReader
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.storage.opening import open_storage
from tests.spark.harness import World

NAMES = [
    "plain",
    "with space",
    "ünïcødé 表",
    "100%",
    "a%20b",
    "plus+and&",
    "semi;colon",
    "part[1]",
    "{curly}",
    "a'b",
    "#x",
]


def reads_of(spark: SparkSession, path: str, **options: str) -> SourceReads:
    reader = StreamReader(spark, "history", None)
    reader.schema("id long").options(**options).parquet(path)
    return reader.reads


def put(world: World, folder: str, *names: str) -> set[str]:
    for number, name in enumerate(names):
        world.put(folder, name, [{"id": number}])
    return {f"{world.base}/{folder}/{name}.parquet".lstrip("/") for name in names}


def stream_through(frame: DataFrame, checkpoint: Path) -> set[str]:
    """Return the normal paths of the files that the stream read, from Spark's own log."""

    def nothing(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("noop").mode("overwrite").save()

    query: Any = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.foreachBatch(nothing).start().awaitTermination()
    return SeenFiles(open_storage(checkpoint), "sources/history").advance(1000)


def test_frozen_names_equal_the_names_in_the_streams_log(spark: SparkSession, world: World, tmp_path: Path) -> None:
    expected = put(world, "history", *NAMES)
    frozen = FrozenFiles("history", list_files(spark, reads_of(spark, world.path("history"))))
    assert frozen.normal == expected
    reader = StreamReader(spark, "history", None)
    frame = reader.schema("id long").parquet(world.path("history"))
    assert stream_through(frame, tmp_path / "checkpoint") == expected


def test_frozen_files_can_be_read_as_a_batch(spark: SparkSession, world: World) -> None:
    from airflow_provider_ckpt.spark.query.sources.reader import BatchReader

    put(world, "history", *NAMES)
    files = list(list_files(spark, reads_of(spark, world.path("history"))))
    rows = BatchReader(spark, files).schema("id long").parquet(world.path("history")).collect()
    assert sorted(row["id"] for row in rows) == [*range(len(NAMES))]


def test_hidden_files_are_not_listed(spark: SparkSession, world: World) -> None:
    expected = put(world, "history", "a")
    put(world, "history", "_hidden", ".also", "_temporary/0/x")
    assert FrozenFiles("h", list_files(spark, reads_of(spark, world.path("history")))).normal == expected


def test_a_glob_lists_its_matches(spark: SparkSession, world: World) -> None:
    expected = put(world, "history", "2024-a", "2024-b")
    put(world, "history", "2023-c")
    reads = reads_of(spark, f"{world.path('history')}/2024-*")
    assert FrozenFiles("h", list_files(spark, reads)).normal == expected


def test_files_in_partition_folders_and_recursive_folders_are_listed(spark: SparkSession, world: World) -> None:
    expected = put(world, "history/day=2024-01-01", "a") | put(world, "history/day=2024-01-02", "a b")
    assert FrozenFiles("h", list_files(spark, reads_of(spark, world.path("history")))).normal == expected
    nested = put(world, "deep/x/y", "a") | put(world, "deep/z", "b")
    reads = reads_of(spark, world.path("deep"), recursiveFileLookup="true")
    assert FrozenFiles("h", list_files(spark, reads)).normal == nested


def test_an_empty_folder_has_an_empty_list(spark: SparkSession, world: World) -> None:
    assert list_files(spark, reads_of(spark, world.path("history"))) == ()


def test_r11_the_first_list_wins(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    first = freeze(storage, "job/frozen/history.json", "history", ["file:/a b", "file:/c"])
    again = freeze(storage, "job/frozen/history.json", "history", ["file:/a b", "file:/c", "file:/late"])
    assert first == again == read_frozen(storage, "job/frozen/history.json")


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("file:/data/a b.parquet", "data/a b.parquet"),
        ("file:///data/100%.parquet", "data/100%.parquet"),
        ("s3a://bucket/x%20y.parquet", "bucket/x%20y.parquet"),
        ("/data/plain.parquet", "data/plain.parquet"),
    ],
)
def test_each_spelling_of_a_path_has_one_normal_form(uri: str, normal: str) -> None:
    assert unescaped_path(uri) == normal


def test_a_lost_list_is_refused_by_name(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    freeze(storage, "job/frozen/history.json", "history", ["file:/a"])
    storage.replace("job/frozen/history.json", storage.read("job/frozen/history.json")[:30])
    with pytest.raises(FrozenListLostError, match=r"frozen/history.json cannot be read: no JSON .* Put it back"):
        read_frozen(storage, "job/frozen/history.json")
    storage.delete("job/frozen/history.json")
    with pytest.raises(FrozenListLostError, match=r"frozen/history.json is gone\. .* Put it back"):
        read_frozen(storage, "job/frozen/history.json")


def test_a_lost_list_of_a_finished_source_does_not_hide_others(tmp_path: Path) -> None:
    storage, state = open_storage(tmp_path), JobState("job")
    source = SourceDefinition(True, format="parquet", paths=("/in",))
    definition = JobDefinition("streaming", {"kept": source, "lost": source}, {}, {})
    PlanRecorded(JobGraph((), ()), {}, 1.0, definition).apply(state)
    for uid in definition.sources:
        SourceFrozen(uid, f"sources/{uid}.json", 1, 1.0).apply(state)
    freeze(storage, "job/sources/kept.json", "kept", ["file:///in/a.parquet"])
    _, ends = reads_of_finished(storage, state)
    assert ends == {"kept": FrozenFiles("kept", ("file:///in/a.parquet",))}
