"""Files that a query cannot read: the error names the file, the column and the cause."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader, SplitReader, StreamReader
from airflow_provider_ckpt.spark.task.errors import QueryFailedError, UnfitInputError
from airflow_provider_ckpt.spark.task.streaming.running_query import query_failed
from tests.spark.harness import World, write_rows

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
IDS = "id long, k long"
Read = Callable[[Any, str], DataFrame]


def reading(world: World, read: Read) -> Job:
    """Return a job that copies what ``read`` returns, one file at a time."""
    job = Job("reading")
    rows = job.source(uid="rows", bounded=True, max_files_per_trigger=1)(lambda reader: read(reader, world.path("in")))
    job.sink("out", rows, FileSink(world.path("out")))
    return job


def text(world: World, name: str, content: str) -> Path:
    path = Path(world.path("in")) / name
    path.write_text(content)
    return path


def released(world: World) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in world.released())


def csv(reader: Any, path: str) -> DataFrame:
    return reader.schema(IDS).option("header", True).csv(path)  # type: ignore[no-any-return]


@MODES
def test_a_csv_file_with_another_column_order_is_named(world: World, mode: str) -> None:
    text(world, "1.csv", "id,k\n1,10\n")
    text(world, "2.csv", "k,id\n20,2\n")
    run = world.run(reading(world, csv), mode=mode)
    assert run.status == "FAILED"
    assert "in/2.csv: its header has the order k, id, and the schema has id, k. Columns" in str(run.cause)
    assert "in/2.csv" in str(world.state().cause)
    text(world, "2.csv", "ID,K\n2,20\n")
    run = world.run(reading(world, csv), mode=mode, resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert released(world) == [(1, 10), (2, 20)]


@MODES
def test_a_csv_file_with_another_number_of_columns_is_named(world: World, mode: str) -> None:
    text(world, "1.csv", "id,k,more\n1,10,5\n")
    run = world.run(reading(world, csv), mode=mode)
    assert run.status == "FAILED"
    assert "in/1.csv: it has 3 columns, and the schema has 2." in str(run.cause)


def test_a_row_in_the_place_of_a_header_is_not_shown(world: World) -> None:
    text(world, "1.csv", "4711,0815\n4712,0816\n")
    run = world.run(reading(world, csv))
    assert run.status == "FAILED"
    assert "in/1.csv: its header does not have id, k at the place that the schema gives." in str(run.cause)
    assert "4711" not in str(run.cause)


READERS: dict[str, Callable[[SparkSession], Any]] = {
    "stream": lambda spark: StreamReader(spark, "rows", None),
    "batch": lambda spark: BatchReader(spark),
    "split": SplitReader,
}
FORMS: dict[str, Read] = {
    "option": csv,
    "argument": lambda reader, path: reader.csv(path, schema=IDS, header="TRUE"),
    "load": lambda reader, path: reader.schema(IDS).load(path, format="csv", header=True),
    "options": lambda reader, path: reader.format("csv").schema(IDS).options(HEADER="true").load(path),
}


def rows_of(frame: DataFrame, tmp_path: Path) -> list[tuple[Any, ...]]:
    if not frame.isStreaming:
        return sorted(map(tuple, frame.collect()))
    rows: list[tuple[Any, ...]] = []

    def collect(batch: DataFrame, number: int) -> None:
        rows.extend(map(tuple, batch.collect()))

    query = frame.writeStream.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
    query.foreachBatch(collect).start().awaitTermination()
    return sorted(rows)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", FORMS)
def test_the_header_is_compared_for_all_calls_of_the_reader(
    spark: SparkSession, world: World, tmp_path: Path, reader: str, form: str
) -> None:
    text(world, "2.csv", "k,id\n20,2\n")
    frame = FORMS[form](READERS[reader](spark), world.path("in"))
    with pytest.raises(Exception, match="CSV header does not conform to the schema"):
        rows_of(frame, tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_may_ignore_the_header(spark: SparkSession, world: World, tmp_path: Path, reader: str) -> None:
    text(world, "2.csv", "a,b\n20,2\n")
    given = READERS[reader](spark)
    assert rows_of(csv(given.option("enforceschema", True), world.path("in")), tmp_path) == [(20, 2)]


@MODES
def test_a_truncated_gzip_file_is_named_and_read_once_it_is_whole(world: World, mode: str) -> None:
    lines = "".join(f'{{"id":{number},"k":1}}\n' for number in range(20_000)).encode()
    path = Path(world.path("in")) / "1.json.gz"
    path.write_bytes(gzip.compress(lines)[:20_000])

    def job() -> Job:
        return reading(world, lambda reader, path: reader.schema(IDS).json(path))

    run = world.run(job(), mode=mode)
    assert run.status == "RESTARTING"
    assert "cannot read file:" in str(run.cause)
    assert "/in/1.json.gz: java.io.EOFException: Unexpected end of input stream. Nothing" in str(run.cause)
    path.write_bytes(gzip.compress(lines))
    assert world.run(job(), mode=mode).status == "FINISHED"
    assert world.released_ids() == [*range(20_000)]


@MODES
def test_a_parquet_file_with_two_columns_of_one_name_is_named(world: World, mode: str) -> None:
    path = Path(world.path("in")) / "1.parquet"
    parquet.write_table(pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["id", "ID", "k"]), path)

    def job() -> Job:
        return reading(world, lambda reader, path: reader.schema(IDS).parquet(path))

    run = world.run(job(), mode=mode)
    assert run.status == "FAILED"
    assert "/in/1.parquet: it has columns with the same name, id, ID. Nothing" in str(run.cause)
    write_rows(path, [{"id": 1, "k": 3}])
    run = world.run(job(), mode=mode, resume_failed=True)
    assert (run.status, run.cause, released(world)) == ("FINISHED", None, [(1, 3)])


@MODES
def test_the_error_of_a_malformed_row_names_file_and_column_and_no_value(world: World, mode: str) -> None:
    text(world, "1.json", '{"id":"hunter2","k":1}\n')
    failfast: Read = lambda reader, path: reader.schema(IDS).option("mode", "FAILFAST").json(path)  # noqa: E731
    run = world.run(reading(world, failfast), mode=mode)
    assert run.status == "FAILED"
    assert "/in/1.json: a row (read as null: id) does not fit the schema" in str(run.cause)
    assert "hunter2" not in str(run.cause)


def test_the_file_of_a_split_is_named(world: World) -> None:
    path = Path(world.path("in")) / "1.json.gz"
    path.write_bytes(gzip.compress(b'{"id":1}\n' * 20_000)[:50])
    job = Job("split")

    @job.source(bounded=True, splits=[str(path)])
    def rows(read: Any, split: str) -> DataFrame:
        return read.schema(IDS).json(split).withColumn("n", F.lit(1))  # type: ignore[no-any-return]

    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "RESTARTING"
    assert "Unexpected end of input stream, in file:" in str(run.cause)
    assert "/in/1.json.gz" in str(run.cause)


def test_the_header_of_a_split_is_compared(world: World) -> None:
    paths = [str(text(world, "1.csv", "id,k\n1,10\n")), str(text(world, "2.csv", "k,id\n20,2\n"))]
    job = Job("split")
    rows = job.source(uid="rows", bounded=True, splits=paths)(lambda reader, split: csv(reader, split))
    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "FAILED"
    assert "/in/2.csv: its header has the order k, id, and the schema has id, k." in str(run.cause)
    text(world, "2.csv", "id,k\n2,20\n")
    assert world.run(job, resume_failed=True).status == "FINISHED"
    assert released(world) == [(1, 10), (2, 20)]


READ = """An error occurred while calling o91.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
s3a://key:hunter2@lake/in.v2/a%20b.x.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:940)
Caused by: {cause}
"""


class CapturedError(Exception):
    """The exception that PySpark raises for most failures. Only its stack trace names the causes."""

    def __init__(self, text: str) -> None:
        super().__init__("[TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030")
        self._stackTrace = text


@pytest.mark.parametrize("kind", [RuntimeError, CapturedError])
def test_the_error_has_the_file_and_no_secret(kind: type[Exception]) -> None:
    error = query_failed("daily", kind(READ.format(cause="java.io.EOFException: end")))
    assert isinstance(error, QueryFailedError)
    assert error.retryable
    assert "/in.v2/a%20b.x: " in str(error)
    assert "hunter2" not in f"{error} {error.data}"


def test_a_cause_names_its_file_once() -> None:
    cause = find_cause(RuntimeError(READ.format(cause="java.io.IOException: end").replace("key:hunter2@", "")))
    assert cause.file == "s3a://lake/in.v2/a%20b.x"
    assert cause.in_file == "java.io.IOException: end, in s3a://lake/in.v2/a%20b.x"
    named = find_cause(
        RuntimeError(READ.format(cause="E: s3a://lake/a is bad").replace("key:hunter2@lake/in.v2/a%20b.x", "lake/a"))
    )
    assert named.in_file == named.message


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ('org.apache.spark.SparkRuntimeException: Found duplicate field(s) "id": [id, ID] in case-insensitive mode.',
         "it has columns with the same name, id, ID"),
        ("org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.\n Header: b, a\n"
         " Schema: a, b\nExpected: a but found: b\nCSV file: s3a://lake/x.csv",
         "Columns of a CSV file are read by position"),
        ("org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records",
         "a row does not fit the schema"),
    ],
)  # fmt: skip
def test_a_permanent_read_error_ends_the_job(cause: str, message: str) -> None:
    for wrapped in (RuntimeError, CapturedError):
        error = query_failed("daily", wrapped(READ.format(cause=cause)))
        assert isinstance(error, UnfitInputError)
        assert message in str(error)
        assert not error.retryable
