"""The reason of a malformed row names the fault, and no column that is only absent or empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from tests.spark.harness import World

CSV = "id INT, name STRING, note STRING, price DECIMAL(10,2), day DATE, folder STRING"
CSV_ROWS = {
    "1,Ann,,2.5,2021-01-02": None,
    "2,Ann,,2.5,2021-01-02,extra": "too many values",
    "3,Ann,,2.5,2021-01-02,": "too many values",
    "4,Ann,n,2.5,2021-01-02,a,b,c,d,e,f,g,h": "too many values",
    "5,Ann": "too few values",
    "6,Ann,,": "too few values",
    '7,"Ann,,': "too few values",
    "8,Ann,,2.5x,2021-01-02": "read as null: price",
    "9,,,2.5x,": "read as null: price",
    "x,,,,2021-13-45": "read as null: id, day",
    '10,"a, c",,y,': "read as null: price",
    "11,Ann,,,": None,
}
JSON = (
    "id INT, kwh DECIMAL(8,3), `at.x` TIMESTAMP, info STRUCT<a: INT, b: ARRAY<INT>, `c.d`: STRUCT<e: INT>>, "
    "m MAP<STRING, INT>"
)
JSON_ROWS = {
    '{"id": 1}': None,
    '{"id": 2, "kwh": "abc", "at.x": "2026-03-28 10:00:00"}': "read as null: kwh",
    '{"id": 3, "info": {"a": "x"}}': "read as null: info.a",
    '{"id": 4, "info": {"b": ["y", 2], "c.d": {}}}': "read as null: info.b",
    '{"id": 5, "info": {"a": 1, "c.d": {"e": "x"}}}': "read as null: info.c.d.e",
    '{"id": 6, "info": 5}': "read as null: info",
    '{"id": 7, "info": {"c.d": [1]}, "m": null}': "read as null: info.c.d",
    '{"id": 8, "m": {"u": "x"}}': "read as null: m",
    '{"id": "x", "at.x": "then", "kwh": null}': "read as null: id, at.x",
    '{"id": "", "other": 1}': "read as null: id",
    '{"id": 9, "at.x": "2026-03-28 10:0': "no JSON object",
    "ten": "no JSON object",
    "11": "no JSON object",
    '[{"id": "x"}]': "does not fit the schema",
}


def quarantined(world: World, form: str, schema: str, options: dict[str, Any]) -> Job:
    job = Job("reasons")
    rows = job.source(uid="rows", bounded=True, on_malformed="quarantine")(
        lambda reader: getattr(reader.schema(schema).options(**options), form)(world.path("in"))
    )
    job.sink(
        "out", job.transform(inputs=[rows], uid="ids")(lambda rows: rows.select("id")), FileSink(world.path("out"))
    )
    job.quarantine("bad", rows, FileSink(world.path("bad")))
    return job


def reasons(world: World, form: str, schema: str, text: str, **options: Any) -> dict[str, str]:
    """Return the reasons by row."""
    folder = Path(world.path("in")) / "folder=f"
    folder.mkdir()
    (folder / f"1.{form}").write_text(text)
    run = world.run(quarantined(world, form, schema, options), mode="batch")
    assert (run.status, run.cause) == ("FINISHED", None)
    return {row["row"]: row["reason"] for row in world.released("bad")}


def expected(rows: dict[str, str | None]) -> dict[str, str]:
    return {row: reason for row, reason in rows.items() if reason is not None}


def test_the_reasons_of_csv_rows(world: World) -> None:
    assert reasons(world, "csv", CSV, "\n".join(CSV_ROWS)) == expected(CSV_ROWS)


@pytest.mark.parametrize("separator", ["\\t", "::"])
def test_the_reasons_of_csv_rows_with_another_separator(world: World, separator: str) -> None:
    between = separator.replace("\\t", "\t")
    rows = {row.replace(",", between): reason for row, reason in CSV_ROWS.items() if "a, c" not in row}
    assert reasons(world, "csv", CSV, "\n".join(rows), sep=separator) == expected(rows)


def test_the_reasons_of_csv_rows_of_several_lines(world: World) -> None:
    rows = {row: reason for row, reason in CSV_ROWS.items() if not row.startswith('7,"')}
    rows['14,"a ""b"" , c",,y,'] = "read as null: price"
    rows['12,"a\nb",,2'] = "too few values"
    rows['13,"a\nb",,2,x'] = "read as null: day"
    by_row = reasons(world, "csv", CSV, "\n".join(rows), multiLine=True, escape='"')
    assert {row.rstrip("\n"): reason for row, reason in by_row.items()} == expected(rows)


def test_the_reasons_of_json_rows(world: World) -> None:
    assert reasons(world, "json", JSON, "\n".join(JSON_ROWS)) == expected(JSON_ROWS)


@pytest.mark.parametrize(
    ("form", "row", "message"),
    [
        ("csv", "9,,,2.5x,", "a row (read as null: price) does not fit the schema"),
        ("csv", "5,Ann", "a row (too few values) does not fit the schema"),
        ("json", '{"id": 2, "info": {"a": "x"}}', "a row (read as null: info.a) does not fit the schema"),
        ("json", '[{"id": "x"}]', ".json: a row does not fit the schema"),
    ],
)
def test_the_error_of_a_failing_source_names_the_fault(world: World, form: str, row: str, message: str) -> None:
    schema = CSV.removesuffix(", folder STRING") if form == "csv" else JSON
    (Path(world.path("in")) / f"1.{form}").write_text(row)
    job = Job("failing")
    rows = job.source(uid="rows", bounded=True)(lambda reader: getattr(reader.schema(schema), form)(world.path("in")))
    job.sink(
        "out", job.transform(inputs=[rows], uid="ids")(lambda rows: rows.select("id")), FileSink(world.path("out"))
    )
    run = world.run(job, mode="batch")
    assert run.status == "FAILED"
    assert message in str(run.cause)
