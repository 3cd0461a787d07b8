"""The readers that a source function gets. They have names and limits, and record the inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.analysed_plan import streaming_leaves
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader, SourceReads, StreamReader
from tests.spark.harness import World

IDS = "id long, k long"
Read = Callable[[Any, str], DataFrame]


def _batch(spark: SparkSession) -> BatchReader:
    return BatchReader(spark)


FORMS: dict[str, tuple[str, Read]] = {
    "parquet": ("parquet", lambda read, path: read.schema(IDS).parquet(path)),
    "orc": ("orc", lambda read, path: read.schema(IDS).orc(path)),
    "json": ("json", lambda read, path: read.json(path, schema=IDS)),
    "csv": ("csv", lambda read, path: read.csv(path, schema=IDS, header=True, sep=";")),
    "text": ("text", lambda read, path: read.text(path)),
    "xml": ("xml", lambda read, path: read.xml(path, schema=IDS, rowTag="row")),
    "format load": ("parquet", lambda read, path: read.format("parquet").schema(IDS).load(path)),
    "load format": ("json", lambda read, path: read.load(path, format="json", schema=IDS)),
    "path option": ("parquet", lambda read, path: read.schema(IDS).option("path", path).load()),
    "Path option": ("json", lambda read, path: read.schema(IDS).format("json").options(Path=path).load()),
    "options": ("csv", lambda read, path: read.schema(IDS).options(header=True).format("csv").load(path)),
}


@pytest.mark.parametrize(
    ("kind", "option", "limits"),
    [
        ("kafka", "maxFilesPerTrigger", False),
        ("kafka", "maxOffsetsPerTrigger", True),
        ("json", "maxFilesPerTrigger", True),
    ],
)
def test_only_limits_of_its_own_kind_count_for_a_source(kind: str, option: str, limits: bool) -> None:
    """A change of a query's limits goes to each of its sources.

    A bounded Kafka source would lose its own limit and read all its history at once.
    """
    assert SourceReads(format=kind, options={option: "1"}).limits_itself() is limits


@pytest.mark.parametrize("form", FORMS)
def test_all_ways_to_load_a_stream_are_recorded(spark: SparkSession, world: World, form: str) -> None:
    kind, load = FORMS[form]
    reader = StreamReader(spark, "history", 1000)
    frame = load(reader, world.path("history"))
    assert frame.isStreaming
    assert streaming_leaves(frame) == 1
    reads = reader.reads
    assert (reads.format, reads.paths, reads.loads, reads.is_file) == (kind, [world.path("history")], 1, True)
    assert reads.schema == frame.schema
    assert reads.options["maxBytesPerTrigger"] == "1000"


@pytest.mark.parametrize("form", FORMS)
def test_the_same_function_reads_a_batch(spark: SparkSession, world: World, form: str) -> None:
    kind, load = FORMS[form]
    reader = BatchReader(spark)
    frame = load(reader.name("history"), world.path("history"))
    assert not frame.isStreaming
    assert (reader.reads.format, reader.reads.paths, reader.reads.loads) == (kind, [world.path("history")], 1)


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "maxbytespertrigger"])
def test_a_limit_set_by_the_function_is_kept(spark: SparkSession, world: World, option: str) -> None:
    reader = StreamReader(spark, "history", 1000)
    reader.option(option, 5).schema(IDS).parquet(world.path("history"))
    limits = {key.lower(): value for key, value in reader.reads.options.items() if "pertrigger" in key.lower()}
    assert limits == {option.lower(): "5"}


def test_a_live_source_is_not_limited(spark: SparkSession, world: World) -> None:
    reader = StreamReader(spark, "live", None)
    reader.schema(IDS).parquet(world.path("live"))
    assert reader.reads.options == {}


def test_a_source_without_files_gets_no_file_limit(spark: SparkSession) -> None:
    reader = StreamReader(spark, "clock", 1000)
    reader.format("rate").load()
    assert not reader.reads.is_file
    assert "maxBytesPerTrigger" not in reader.reads.options


def test_a_batch_reads_only_frozen_files(spark: SparkSession, world: World) -> None:
    world.put_ids("history", 3, 2)

    rows = (
        BatchReader(spark, [f"file://{world.path('history')}/000002.parquet"])
        .schema(IDS)
        .parquet(world.path("history"))
        .collect()
    )
    assert sorted(row["id"] for row in rows) == [2, 3]


def test_a_source_with_an_empty_frozen_list_reads_no_later_file(spark: SparkSession, world: World) -> None:
    world.put_ids("history", 1, 2)
    frame = BatchReader(spark, []).schema(IDS).parquet(world.path("history"))
    assert frame.collect() == []
    assert frame.columns == ["id", "k"]


def test_frozen_files_keep_the_columns_of_their_folders(spark: SparkSession, world: World) -> None:
    world.put("history/day=1", "a", [{"id": 1}])
    world.put("history/day=2", "b", [{"id": 2}])
    files = [f"file://{world.base}/history/day=2/b.parquet"]
    rows = BatchReader(spark, files).schema("id long, day int").parquet(world.path("history")).collect()
    assert [row.asDict() for row in rows] == [{"id": 2, "day": 2}]


def test_a_glob_and_names_with_brackets_are_read_from_the_frozen_list(spark: SparkSession, world: World) -> None:
    world.put("history/day=1", "part[1]", [{"id": 1}])
    world.put("history/day=2", "b{x}", [{"id": 2}])
    files = [f"file://{world.base}/history/day=1/part[1].parquet", f"file://{world.base}/history/day=2/b{{x}}.parquet"]
    reader = BatchReader(spark, files)
    rows = reader.schema("id long, day int").parquet(f"{world.path('history')}/day=*/*.parquet").collect()
    assert sorted((row["id"], row["day"]) for row in rows) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_path_given_as_an_option_is_frozen_and_read(world: World, mode: str) -> None:
    expected = world.put_ids("history", 2, 2)
    job = Job("option")
    history = job.source(bounded=True, uid="history")(
        lambda read: read.schema(IDS).format("parquet").option("path", world.path("history")).load()
    )
    job.sink("out", history, FileSink(world.path("out")))
    assert world.run(job, mode=mode).status == "FINISHED"
    assert world.state().frozen["history"].count == 2
    assert world.released_ids() == sorted(expected)


def test_a_path_given_twice_is_refused(spark: SparkSession, world: World) -> None:
    reader = StreamReader(spark, "history", None).schema(IDS).option("path", world.path("a"))
    with pytest.raises(AnalysisException, match="path"):
        reader.parquet(world.path("b"))


@pytest.mark.parametrize("make", [lambda spark: StreamReader(spark, "history", None), _batch], ids=["stream", "batch"])
def test_a_relative_path_is_recorded_as_spark_resolves_it(
    spark: SparkSession, world: World, make: Callable[[SparkSession], Any]
) -> None:
    jvm: Any = spark._jvm
    cwd = jvm.java.lang.System.getProperty("user.dir")
    relative = os.path.relpath(world.path("history"), cwd)
    reader = make(spark)
    reader.schema(IDS).parquet(relative)
    assert [os.path.normpath(path.removeprefix("file:")) for path in reader.reads.paths] == [world.path("history")]
    assert reader.reads.paths[0].startswith("file:/")
