"""Rows of CSV and JSON files that do not fit the schema: they fail the job, or are counted once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.malformed import MalformedRule
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader, SplitReader, StreamReader
from tests.spark.faults import HookedStorage, at_prepared, fail_prepared
from tests.spark.harness import World

MODES = pytest.mark.parametrize("mode", ["streaming", "batch"])
SCHEMA = "id LONG, k LONG, name STRING"
Read = Callable[[Any, str], DataFrame]

GOOD = {"csv": "{0},{0},n{0}\n", "json": '{{"id":{0},"k":{0},"name":"n{0}"}}\n'}
BAD = {"csv": "{0},hunter2,n{0}\n", "json": '{{"id":{0},"k":"hunter2","name":"n{0}"}}\n'}


def csv(reader: Any, path: str) -> DataFrame:
    return reader.schema(SCHEMA).csv(path)  # type: ignore[no-any-return]


def json_lines(reader: Any, path: str) -> DataFrame:
    return reader.schema(SCHEMA).json(path)  # type: ignore[no-any-return]


READS: dict[str, Read] = {"csv": csv, "json": json_lines}


def put(world: World, folder: str, form: str, first: int, good: int = 3, bad: int = 0) -> Path:
    """Write a file whose last ``bad`` rows have a text in the column ``k``."""
    ids = range(first, first + good + bad)
    lines = [(GOOD if number < first + good else BAD)[form].format(number) for number in ids]
    path = Path(world.path(folder)) / f"{first:06d}.{form}"
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(lines))
    hidden.rename(path)
    return path


def reading(
    world: World, read: Read, shape: Callable[[DataFrame], DataFrame] = lambda rows: rows, **source: Any
) -> Job:
    """Return a job that reads one file at a time."""
    job = Job("reading")
    given: dict[str, Any] = {"bounded": True, "max_files_per_trigger": 1, **source}
    rows = job.source(uid="rows", **given)(lambda reader: read(reader, world.path("in")))
    shaped = job.transform(inputs=[rows], uid="shaped")(shape)
    job.sink("out", shaped, FileSink(world.path("out")))
    return job


def live(world: World, form: str, *sinks: str, history: bool = False, **source: Any) -> Job:
    """Return a job that reads live files, and history, into each of the sinks."""
    job = Job("live")
    inputs = []
    if history:
        read_history = job.source(uid="history", bounded=True, on_malformed="count", max_files_per_trigger=1)(
            lambda reader: READS[form](reader, world.path("history"))
        )
        inputs.append(read_history)
    read_live = job.source(uid="live", max_files_per_trigger=1, **source)(
        lambda reader: READS[form](reader, world.path("live"))
    )
    united = job.transform(inputs=[*inputs, read_live], uid="united")(lambda rows: rows)
    for sink in sinks:
        job.sink(sink, united, FileSink(world.path(sink)))
    return job


def rows_of(world: World, output: str = "out") -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in world.released(output)), key=str)


def expected(spark: SparkSession, world: World, form: str, *folders: str) -> list[tuple[Any, ...]]:
    """Return the rows as Spark alone reads them."""
    frame = getattr(spark.read.schema(SCHEMA), form)([world.path(folder) for folder in folders])
    return sorted(map(tuple, frame.collect()), key=str)


def malformed(world: World) -> dict[str, int]:
    return world.state().malformed_rows()


@MODES
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_bounded_source_fails_and_resumes_with_the_mended_file(
    world: World, form: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(world, "in", form, 1)
    path = put(world, "in", form, 10, bad=1)
    with caplog.at_level(logging.ERROR):
        run = world.run(reading(world, READS[form]), mode=mode)
    assert run.status == "FAILED"
    assert f"/in/{path.name}: a row (read as null: k) does not fit the schema. Nothing" in str(run.cause)
    assert "on_malformed='count'" in str(run.cause)
    assert "hunter2" not in f"{run.cause} {world.state().cause}"
    shown = [record.getMessage() for record in caplog.records if "hunter2" in record.getMessage()]
    assert [message.partition("begins with ")[2] for message in shown] == [ascii(BAD[form].format(13).rstrip())]
    put(world, "in", form, 10, good=4)
    run = world.run(reading(world, READS[form]), mode=mode, resume_failed=True)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1, 2, 3, 10, 11, 12, 13]
    assert malformed(world) == {}


SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "column": lambda rows: rows.select("id"),
    "condition": lambda rows: rows.where("k > 0"),
    "other condition": lambda rows: rows.where("id < 3").select("name"),
    "nothing": lambda rows: rows.select(F.lit(1).alias("one")),
}


@MODES
@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_malformed_row_fails_queries_of_all_shapes(world: World, form: str, mode: str, shape: str) -> None:
    put(world, "in", form, 1, bad=1)
    run = world.run(reading(world, READS[form], SHAPES[shape]), mode=mode)
    assert run.status == "FAILED"
    assert "(read as null: k) does not fit" in str(run.cause)


@pytest.mark.parametrize("shape", ["column", "condition", "nothing"])
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_malformed_row_is_counted_in_queries_of_all_shapes(world: World, mode: str, shape: str) -> None:
    put(world, "in", "csv", 1, bad=2)
    run = world.run(reading(world, csv, SHAPES[shape], on_malformed="count"), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert malformed(world) == {"rows": 2}


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("sinks", [("out",), ("out", "also")], ids=["one sink", "two sinks"])
def test_malformed_rows_of_history_and_a_live_source_are_counted_once(
    spark: SparkSession, world: World, form: str, sinks: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for first, bad in ((1, 0), (10, 2), (20, 1)):
        put(world, "history", form, first, bad=bad)
        put(world, "live", form, 100 + first, bad=bad + 1)
    drain = world.ask("drain", lambda: bool(world.state().dropped) and world.read_up_to("united", "live") == 2)
    run = world.run(live(world, form, *sinks, history=True), drain)
    assert (run.status, run.cause) == ("FINISHED", None)
    for sink in sinks:
        assert rows_of(world, sink) == expected(spark, world, form, "history", "live")
    assert malformed(world) == {"history": 3, "live": 6}
    assert "malformed rows since the job began: 3 in history, 6 in live" in run.lines[-1]["message"]
    assert run.lines[-1]["malformed_rows"] == 9
    assert any("more malformed row" in line["message"] for line in run.of("released"))
    assert sum("read as nulls: in file:" in record.getMessage() for record in caplog.records) == 5
    assert "hunter2" not in caplog.text


def test_malformed_rows_of_a_retried_batch_are_counted_once(spark: SparkSession, world: World) -> None:
    for first in (1, 10, 20):
        put(world, "live", "csv", first, bad=2)
    storage = HookedStorage(world.storage, at_prepared("united", 2, fail_prepared))
    drain = world.ask("drain", lambda: world.read_up_to("united", "live") == 2)
    run = world.run(live(world, "csv", "out"), drain, storage=storage, restart_attempts=3, restart_delay=0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert rows_of(world) == expected(spark, world, "csv", "live")
    assert malformed(world) == {"live": 6}


def test_the_count_of_malformed_rows_continues_in_the_next_run(spark: SparkSession, world: World) -> None:
    for first in (1, 10, 20):
        put(world, "live", "csv", first, bad=1)
    assert world.stop_in_batch(live(world, "csv", "out"), "united").status == "STOPPED"
    assert malformed(world) == {"live": 1}
    run = world.run(live(world, "csv", "out"), world.ask("drain", lambda: world.read_up_to("united", "live") == 2))
    assert (run.status, run.cause) == ("FINISHED", None)
    assert rows_of(world) == expected(spark, world, "csv", "live")
    assert malformed(world) == {"live": 3}


def test_a_live_source_fails_on_request(world: World) -> None:
    put(world, "live", "json", 1, bad=1)
    run = world.run(live(world, "json", "out", on_malformed="fail"))
    assert run.status == "FAILED"
    assert "(read as null: k) does not fit the schema" in str(run.cause)


def by_split(world: World, paths: list[Path], **source: Any) -> Job:
    job = Job("split")
    given = {"bounded": True, "splits": [str(path) for path in paths], **source}
    rows = job.source(uid="rows", **given)(lambda reader, split: reader.csv(split, SCHEMA, ","))
    job.sink("out", rows, FileSink(world.path("out")))
    return job


@pytest.mark.parametrize("together", [{}, {"parallelism": 2}], ids=["one by one", "together"])
def test_malformed_rows_of_splits_fail_or_are_counted(
    spark: SparkSession, world: World, together: dict[str, Any]
) -> None:
    paths = [put(world, "in", "csv", first, bad=1) for first in (1, 10, 20)]
    run = world.run(by_split(world, paths, **together))
    assert run.status == "FAILED"
    assert "(read as null: k) does not fit the schema" in str(run.cause)
    world.job_id = "counted"
    job = by_split(world, paths, on_malformed="count", **together)
    assert world.run(job).status == "FINISHED"
    assert rows_of(world) == expected(spark, world, "csv", "in")
    assert malformed(world) == {"rows": 3}


@MODES
@pytest.mark.parametrize("form", ["csv", "json"])
def test_malformed_rows_dropped_by_the_reader_are_counted(world: World, form: str, mode: str) -> None:
    put(world, "in", form, 1, bad=2)

    def dropping(reader: Any, path: str) -> DataFrame:
        return READS[form](reader.option("mode", "DropMalformed"), path)

    run = world.run(reading(world, dropping, lambda rows: rows.select("id")), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert (world.released_ids(), malformed(world)) == ([1, 2, 3], {"rows": 2})


def test_failfast_names_the_file(world: World) -> None:
    put(world, "live", "csv", 1, bad=1)
    job = Job("failfast")
    rows = job.source(uid="rows")(lambda reader: csv(reader.option("mode", "FAILFAST"), world.path("live")))
    job.sink("out", rows, FileSink(world.path("out")))
    run = world.run(job)
    assert run.status == "FAILED"
    assert "/live/000001.csv: a row (read as null: k) does not fit" in str(run.cause)


def test_a_row_with_too_many_or_too_few_values_is_malformed(world: World) -> None:
    (Path(world.path("in")) / "1.csv").write_text("1,1,a\n2,2\n3,3,c,d\n")
    run = world.run(reading(world, csv, on_malformed="count"))
    assert rows_of(world) == [(1, 1, "a"), (2, 2, None), (3, 3, "c")]
    assert (run.status, malformed(world)) == ("FINISHED", {"rows": 2})


# ---- readers


def rule(*, streaming: bool, **given: Any) -> MalformedRule:
    return MalformedRule(Operator("rows", "source", "job.py:1", **given), streaming)


def reader_of(spark: SparkSession, kind: str, **given: Any) -> Any:
    if kind == "stream":
        return StreamReader(spark, "rows", None, malformed=rule(streaming=True, **given))
    if kind == "batch":
        return BatchReader(spark, malformed=rule(streaming=False, **given))
    return SplitReader(spark, rule(streaming=False, **given))


KINDS = pytest.mark.parametrize("kind", ["stream", "batch", "split"])
CHOICES = pytest.mark.parametrize("choice", ["fail", "count"])


@KINDS
@CHOICES
@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_function_gets_the_columns_of_the_files(
    spark: SparkSession, world: World, kind: str, choice: Any, form: str
) -> None:
    put(world, "in/day=1", form, 1)
    schema = "name STRING, day INT, id LONG, `a.b` STRING"
    plain = getattr(spark.read.schema(schema), form)(world.path("in"))
    frame = getattr(reader_of(spark, kind, on_malformed=choice).schema(schema), form)(world.path("in"))
    assert frame.schema == plain.schema
    assert frame.select("*", "_metadata.file_name").columns[-1] == "file_name"


@pytest.mark.parametrize("kind", ["batch", "split"])
@CHOICES
def test_a_schema_is_inferred(spark: SparkSession, world: World, kind: str, choice: Any) -> None:
    put(world, "in", "json", 1, bad=0)
    (Path(world.path("in")) / "broken.json").write_text("{\n")
    frame = reader_of(spark, kind, on_malformed=choice).json(world.path("in"))
    assert frame.schema == StructType.fromDDL("id LONG, k LONG, name STRING")


@KINDS
def test_a_reader_with_its_own_corrupt_record_column_is_unchanged(spark: SparkSession, world: World, kind: str) -> None:
    put(world, "in", "csv", 1)
    own = f"{SCHEMA}, _corrupt_record STRING"
    assert reader_of(spark, kind).schema(own).csv(world.path("in")).columns[-1] == "_corrupt_record"
    with pytest.raises(UnfitSourceError, match="its schema has the column _corrupt_record"):
        reader_of(spark, kind, on_malformed="count").schema(own).csv(world.path("in"))


@KINDS
@pytest.mark.parametrize(("choice", "mode"), [("count", "FAILFAST"), ("fail", "DROPMALFORMED")])
def test_a_choice_that_contradicts_the_readers_mode_is_refused(
    spark: SparkSession, world: World, kind: str, choice: Any, mode: str
) -> None:
    put(world, "in", "csv", 1)
    with pytest.raises(UnfitSourceError, match=f"has on_malformed='{choice}' .* mode={mode}"):
        reader_of(spark, kind, on_malformed=choice).schema(SCHEMA).option("mode", mode).csv(world.path("in"))


@MODES
def test_a_document_of_several_lines_is_malformed_as_a_whole(
    world: World, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(world.path("in")) / "a [1].json").write_text('{"id":\n "x\x1b[2J"}\n')
    if mode == "streaming":
        (Path(world.path("in")) / "a [1].json").rename(Path(world.path("in")) / "a 1.json")

    def document(reader: Any, path: str) -> DataFrame:
        return reader.schema(SCHEMA).option("multiLine", True).json(path)  # type: ignore[no-any-return]

    run = world.run(reading(world, document), mode=mode)
    assert run.status == "FAILED"
    assert "a row (no JSON object) does not fit" in str(run.cause)
    assert 'begins with \'{"id":\\n "x\\x1b[2J"}' in caplog.text


@MODES
def test_a_row_with_too_many_values_fails(world: World, mode: str) -> None:
    (Path(world.path("in")) / "1.csv").write_text("1,1,a\n3,3,c,d\n")
    run = world.run(reading(world, csv), mode=mode)
    assert run.status == "FAILED"
    assert "/in/1.csv: a row (too many values) does not fit" in str(run.cause)


# ---- quarantine


def quarantined(world: World, form: str, *, sinks: tuple[str, ...] = ("out",), **source: Any) -> Job:
    """Return a job whose malformed rows go to ``bad``."""
    job = Job("quarantined")
    given: dict[str, Any] = {"max_files_per_trigger": 1, **source}
    rows = job.source(uid="rows", on_malformed="quarantine", **given)(
        lambda reader: READS[form](reader, world.path("in"))
    )
    shaped = job.transform(inputs=[rows], uid="shaped")(lambda rows: rows.where("id > 0"))
    for sink in sinks:
        job.sink(sink, shaped, FileSink(world.path(sink)))
    job.quarantine("bad", rows, FileSink(world.path("bad")))
    return job


def in_quarantine(world: World) -> list[tuple[str, ...]]:
    return sorted((row["file"].rpartition("/")[2], row["row"], row["reason"]) for row in world.released("bad"))


def expected_bad(form: str, *ids: int) -> list[tuple[str, ...]]:
    """Return the rows in quarantine of files that begin with 1, 10 and 20 and have two malformed rows each."""
    first = {number: max(start for start in (1, 10, 20) if start <= number) for number in ids}
    name = {number: f"{start:06d}.{form}" for number, start in first.items()}
    return sorted((name[number], BAD[form].format(number).rstrip(), "read as null: k") for number in ids)


@MODES
@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("sinks", [("out",), ("out", "also")], ids=["one sink", "two sinks"])
def test_malformed_rows_go_only_to_their_quarantine(
    world: World, form: str, mode: str, sinks: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for first in (1, 10, 20):
        put(world, "in", form, first, bad=2)
    run = world.run(quarantined(world, form, sinks=sinks, bounded=True), mode=mode)
    assert (run.status, run.cause) == ("FINISHED", None)
    for sink in sinks:
        assert world.released_ids(sink) == [1, 2, 3, 10, 11, 12, 20, 21, 22]
    assert in_quarantine(world) == expected_bad(form, 4, 5, 13, 14, 23, 24)
    assert malformed(world) == {"rows": 6}
    assert ", which do not fit its schema and go to the quarantine bad: in file:" in caplog.text
    assert "read as nulls" not in caplog.text


def test_a_retried_batch_puts_its_rows_into_quarantine_once(world: World) -> None:
    for first in (1, 10, 20):
        put(world, "in", "csv", first, bad=2)
    storage = HookedStorage(world.storage, at_prepared("shaped", 2, fail_prepared))
    drain = world.ask("drain", lambda: world.read_up_to("shaped", "rows") == 2)
    run = world.run(quarantined(world, "csv"), drain, storage=storage, restart_attempts=3, restart_delay=0)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1, 2, 3, 10, 11, 12, 20, 21, 22]
    assert in_quarantine(world) == expected_bad("csv", 4, 5, 13, 14, 23, 24)
    assert malformed(world) == {"rows": 6}


def test_malformed_rows_of_splits_go_to_quarantine(world: World) -> None:
    paths = [put(world, "in", "csv", first, bad=2) for first in (1, 10, 20)]
    job = by_split(world, paths, on_malformed="quarantine", parallelism=2)
    job.quarantine("bad", "rows", FileSink(world.path("bad")))
    run = world.run(job)
    assert (run.status, run.cause) == ("FINISHED", None)
    assert world.released_ids() == [1, 2, 3, 10, 11, 12, 20, 21, 22]
    assert in_quarantine(world) == expected_bad("csv", 4, 5, 13, 14, 23, 24)
