"""Text after the JSON value of a row, which Spark's reader drops: no row is lost silently."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.spark.query.analysed_plan import analysed
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.task.malformed_rows import BatchCheck
from tests.spark.harness import World
from tests.spark.test_malformed_rows import reader_of

pytestmark = pytest.mark.slow

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
SCHEMA = "id LONG, name STRING"
TWO, TRAILING = '{"id":1}{"id":2}', '{"id":3} trailing'
WHOLE = (
    '{"id":1,"name":"a}b{"}',
    '  {"id":2, "name":"]} x"}  ',
    '[{"id":3},{"id":4}]',
    "{'id':5, 'name':'{\"x\"}'}",
    '{"id":6},',
    '{"id":7}]',
    '{"id":8,"more":{"a":[1,{"b":2}],"c":NaN}}',
    '{"id":9,"id":9}',
    "",
    "   ",
)
MORE = (
    TWO,
    TRAILING,
    '{"id":1} {"id":2}',
    '{"id":1},{"id":2}',
    '{"id":1}, "id"',
    '[{"id":1}] {"id":2}',
    '[] {"id":2}',
    '{"id":1}] trailing',
    '{"id":1}} 2',
    '{"id":1}\0\0\0',
    '{"id":1,"name":"ü"}{"id":2}',
    '{"id":1,"more":NaN}{"id":2}',
    '{"id":1}null',
    '{"id":1},,{"id":2}',
    "{\"id\":1} , , 'id'",
)


def put(world: World, name: str, *lines: str, encoding: str = "utf-8", end: str = "\n") -> Path:
    path = Path(world.path("in")) / name
    path.with_name(f".{name}").write_bytes("".join(line + end for line in lines).encode(encoding))
    return path.with_name(f".{name}").rename(path)


def reading(world: World, *options: tuple[str, Any], **source: Any) -> Job:
    job = Job("reading")
    given: dict[str, Any] = {"bounded": True, "max_files_per_trigger": 1, **source}

    @job.source(**given)
    def rows(read: Any) -> DataFrame:
        return read.schema(SCHEMA).options(**dict(options)).json(world.path("in"))  # type: ignore[no-any-return]

    job.sink("out", rows, FileSink(world.path("out")))
    if source.get("on_malformed") == "quarantine":
        job.quarantine("bad", rows, FileSink(world.path("bad")))
    return job


def rows_with_trailing_text(spark: SparkSession, world: World, *options: tuple[str, Any]) -> list[str]:
    """Return the rows with text after their value."""
    reader = reader_of(spark, "batch", on_malformed="count")
    frame = reader.schema(SCHEMA).options(**dict(options)).json(world.path("in"))
    check = BatchCheck(spark, "rows", analysed(frame), lambda uid, rows: rows, {})
    [source] = check.sources()
    trailing = check.trailing(source)
    assert trailing is not None
    return sorted(row["row"] for row in trailing.rows().collect())


def test_a_line_with_one_value_has_no_trailing_text(spark: SparkSession, world: World) -> None:
    put(world, "a.json", *WHOLE)
    assert rows_with_trailing_text(spark, world) == []


def test_text_after_the_value_is_found(spark: SparkSession, world: World) -> None:
    put(world, "a.json", *WHOLE, *MORE)
    assert rows_with_trailing_text(spark, world) == sorted(MORE)


@pytest.mark.parametrize("line", ['{"id":"x"}{"id":2}', "{} x", "null", "7 8", '{"id"', "x"])
def test_a_malformed_row_with_trailing_text_is_counted_once(world: World, line: str) -> None:
    """Spark itself finds a row that does not fit the schema."""
    put(world, "a.json", line)
    run = world.run(reading(world, on_malformed="count"))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.state().malformed_rows() == {"rows": 1}


OPTIONS: dict[str, tuple[list[tuple[str, Any]], str, str]] = {
    "comments": ([("allowComments", True)], '{"id":1} // one', '{"id":1} // one\n'),
    "names": ([("allowUnquotedFieldNames", True)], "{id:1}", "{id:1}{id:2}"),
    "lines": ([("lineSep", ";")], '{"id":1}\n', '{"id":1}{"id":2}'),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_reader_options_apply_to_the_check_for_trailing_text(spark: SparkSession, world: World, kind: str) -> None:
    options, whole, more = OPTIONS[kind]
    end = ";" if kind == "lines" else "\n"
    put(world, "a.json", whole, end=end)
    assert rows_with_trailing_text(spark, world, *options) == []
    put(world, "b.json", more, end=end)
    assert rows_with_trailing_text(spark, world, *options) == ([] if kind == "comments" else [more])


@pytest.mark.parametrize(
    ("encoding", "python"), [("UTF-16LE", "utf-16-le"), ("UTF-16", "utf-16"), ("UTF-8", "utf-8-sig")]
)
def test_a_multiline_file_of_several_values_is_found(
    spark: SparkSession, world: World, encoding: str, python: str
) -> None:
    """Spark reads the first line only if multiLine=true."""
    options = [("multiLine", True), ("encoding", encoding)]
    put(world, "a.json", '{"id":\n 1}', encoding=python)
    assert rows_with_trailing_text(spark, world, *options) == []
    put(world, "b.json", '{"id":1}', '{"id":2,"name":"ü"}', encoding=python)
    assert rows_with_trailing_text(spark, world, *options) == ['{"id":1}\n{"id":2,"name":"ü"}\n']


@MODES
def test_a_source_with_trailing_text_fails_until_the_file_is_mended(
    world: World, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(world, "a.json", '{"id":0}')
    path = put(world, "b.json", TWO, TRAILING)
    with caplog.at_level(logging.ERROR):
        run = world.run(reading(world), mode=mode)
    assert run.status == "FAILED"
    assert f"/in/{path.name}: there is text after the first JSON value of 2 rows" in str(run.cause)
    assert "trailing" not in f"{run.cause} {world.state().cause}"
    assert any(f"begins with {TWO!r}" in record.getMessage() for record in caplog.records)
    put(world, "b.json", '{"id":1}', '{"id":2}', '{"id":3}')
    run = world.run(reading(world), mode=mode, resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 2, 3]


@MODES
def test_rows_with_trailing_text_are_counted(world: World, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    put(world, "a.json", '{"id":0}', TWO, '{"id":"x"}')
    put(world, "b.json", TRAILING)
    run = world.run(reading(world, on_malformed="count"), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert sorted(str(row["id"]) for row in world.released()) == ["0", "1", "3", "None"]
    assert world.state().malformed_rows() == {"rows": 3}
    assert "text after the first JSON value, which is not read: in file:" in caplog.text


@MODES
def test_rows_with_trailing_text_go_to_quarantine(world: World, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    put(world, "a.json", '{"id":0}', TWO, '{"id":"x"}')
    put(world, "b.json", TRAILING)
    run = world.run(reading(world, on_malformed="quarantine"), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [0, 1, 3]
    reason = "text after the first JSON value is not read"
    assert sorted((row["row"], row["reason"]) for row in world.released("bad")) == [
        ('{"id":"x"}', "read as null: id"),
        (TWO, reason),
        (TRAILING, reason),
    ]
    assert world.state().malformed_rows() == {"rows": 3}
    assert "which is not read, and the whole lines go to the quarantine bad: in file:" in caplog.text


def test_malformed_rows_of_history_do_not_count_for_the_live_source(world: World) -> None:
    job = Job("one-folder")
    given: dict[str, Any] = {"max_files_per_trigger": 1, "on_malformed": "count"}

    @job.source(bounded=True, **given)
    def history(read: Any) -> DataFrame:
        return read.schema(SCHEMA).json(world.path("in"))  # type: ignore[no-any-return]

    @job.source(after=history, **given)
    def live(read: Any) -> DataFrame:
        return read.schema(SCHEMA).json(world.path("in"))  # type: ignore[no-any-return]

    @job.transform(inputs=[history, live])
    def both(rows: DataFrame) -> DataFrame:
        return rows

    job.sink("out", both, FileSink(world.path("out")))
    put(world, "a.json", TWO, '{"id":"x"}')
    put(world, "b.json", '{"id":5}')
    came: list[Path] = []

    def on_line(line: Any) -> None:
        if line["kind"] == "running" and not came:
            came.append(put(world, "c.json", TRAILING, '{"id":"y"}', '{"id":"z"}'))
        drain(line)

    drain = world.ask("drain", lambda: world.released_count() == 6)
    run = world.run(job, on_line)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.state().malformed_rows() == {"history": 2, "live": 3}


@pytest.mark.parametrize("kind", ["stream", "batch"])
@pytest.mark.parametrize("form", ["parquet", "text"])
def test_on_malformed_for_an_unchecked_format_is_refused(
    spark: SparkSession, world: World, kind: str, form: str
) -> None:
    put(world, "a.json", TWO)
    with pytest.raises(UnfitSourceError, match=f"on_malformed='count', and reads the format {form}"):
        reader_of(spark, kind, on_malformed="count").schema("value STRING").format(form).load(world.path("in"))
    if form == "text":
        assert reader_of(spark, kind).schema("value STRING").format(form).load(world.path("in")).columns == ["value"]
