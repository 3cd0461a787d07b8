"""The draws of tables, values, bounds and plans: each kind is drawn, and the oracles see wrong rows."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.random_jobs import plan_cases, table_cases
from tests.random_jobs.bounds import BOUNDS, bound_changes
from tests.random_jobs.drawn import draws_of, record, summary
from tests.random_jobs.generate import definition
from tests.random_jobs.plan_cases import plan_case
from tests.random_jobs.table_cases import CHANGES, Mode, TableCase, Trigger, table_case
from tests.random_jobs.table_jobs import SHOWN, TableJob
from tests.random_jobs.table_targets import OLD, OTHERS, IcebergTarget, SQLiteTarget
from tests.random_jobs.value_cases import Order, value_case
from tests.random_jobs.value_types import ATOMS, EPOCH, Kind, variant

SEEDS = range(1, 200)
LOCAL = ("sqlite", "iceberg")
"""Kinds of tables without a server."""
STRUCT = Kind("struct", (("city", Kind("STRING")), ("street", Kind("STRING"))))


def test_the_special_inputs_of_jobs_are_drawn() -> None:
    counts = Counter(draw for seed in SEEDS for draw in draws_of(definition(seed)))
    wanted = ("folders of zones", "empty for good", "empty folder at first", "missing folder at first", "late rows")
    assert {draw: counts[draw] for draw in wanted if counts[draw] < 5} == {}


def test_every_bound_is_drawn_and_changed() -> None:
    drawn = [bound_changes(seed) for seed in range(1, 40)]
    assert {change[0] for change in drawn} == {*BOUNDS}
    assert all(before != after for _, _, before, after in drawn)


def test_every_trigger_and_change_of_a_table_is_drawn() -> None:
    cases = [table_case(seed) for seed in SEEDS]
    assert cases == [table_case(seed) for seed in SEEDS]
    assert {case.change for case in cases} == {*CHANGES}
    assert {case.trigger for case in cases} == {*get_args(Trigger)}
    assert {(case.kind, case.mode) for case in cases} == {
        (kind, mode) for kind in get_args(table_cases.Kind) for mode in get_args(Mode)
    }


def test_every_shape_and_type_of_values_is_drawn() -> None:
    cases = [value_case(seed) for seed in SEEDS]
    assert cases == [value_case(seed) for seed in SEEDS]
    shapes = [shape for case in cases for shape in case.shapes]
    assert {shape.order for shape in shapes} == {*get_args(Order)}
    assert {(shape.cut, shape.consumer, shape.apart) for shape in shapes} == {
        (cut, consumer, apart) for cut in (False, True) for consumer in (False, True) for apart in (False, True)
    }
    assert {kind.name for case in cases for _, kind in case.history} == {*ATOMS, "struct", "array", "map"}
    assert any("names in another case" in case.draws for case in cases)


def test_every_draw_and_every_kind_of_plan_is_drawn() -> None:
    drawn = {draw for seed in SEEDS for draw in value_case(seed).draws}
    settings = "spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS"
    assert drawn >= {"fields in another order", "names of files", "another zone at a restart", settings}
    assert {plan_case(seed)[0] for seed in SEEDS} == {*plan_cases.KINDS}


@pytest.mark.parametrize("seed", range(1, 16))
def test_a_value_survives_a_file_in_any_variant(seed: int, tmp_path: Path) -> None:
    case = value_case(seed)
    for source, columns in (("history", case.history), ("live", case.live)):
        rows = case.rows(source)[0]
        schema = pa.schema([pa.field(name, kind.arrow) for name, kind in columns])
        stored = [{name: kind.stored(row[name.lower()]) for name, kind in columns} for row in rows]
        parquet.write_table(pa.Table.from_pylist(stored, schema), tmp_path / source)
        read = parquet.read_table(tmp_path / source).to_pylist()
        for name, kind in columns:
            assert [kind.plain(row[name]) for row in read] == [kind.plain(row[name.lower()]) for row in rows]


def test_swapped_values_differ_and_reordered_fields_do_not() -> None:
    other = replace(STRUCT, inner=STRUCT.inner[::-1])
    row = {"city": "Rom", "street": "Corso"}
    assert STRUCT.plain(row) == other.plain(dict(reversed(row.items())))
    assert STRUCT.plain(row) != STRUCT.plain({"city": "Corso", "street": "Rom"})
    assert {variant(random.Random(seed), STRUCT) for seed in range(20)} == {STRUCT, other}


def test_a_microsecond_makes_a_difference() -> None:
    kind = Kind("TIMESTAMP")
    assert kind.plain(EPOCH) != kind.plain(EPOCH + timedelta(microseconds=1))


def test_an_instant_without_a_zone_is_in_utc() -> None:
    kind = Kind("TIMESTAMP")
    assert kind.plain(pd.Timestamp("2024-01-05 00:00:00.000001")) == EPOCH + timedelta(microseconds=1)
    assert kind.plain(EPOCH.astimezone(ZoneInfo("Asia/Kolkata"))) == EPOCH


# ---- tables


def test_expected_rows_include_a_foreign_change_of_the_table(tmp_path: Path) -> None:
    """Without a job: nothing was released when the table was changed."""
    cases = {
        (case.kind, case.change): case
        for case in map(table_case, SEEDS)
        if case.trigger == "none" and case.kind in LOCAL
    }
    for case in cases.values():
        if case.change in ("none", "delete row"):
            continue
        base = tmp_path / str(case.seed)
        base.mkdir()
        target = IcebergTarget(case, base) if case.kind == "iceberg" else SQLiteTarget(case, base)
        target.make()
        assert target.change() == [OLD]
        target.restore_column()
        old = [(OLD[0], None) if case.change == "drop column" else OLD]
        assert sorted(target.rows()) == sorted([*old, *([OTHERS] if case.change == "insert row" else [])])


def test_expected_rows_include_foreign_changes_of_released_rows(tmp_path: Path) -> None:
    case = replace(_case(), change="drop column", trigger="none", mode="append")
    job = TableJob(case, SQLiteTarget(case, tmp_path), tmp_path)
    everything = dict(row for rows in (*case.rows(0), *case.rows(1)) for row in rows)
    assert dict(job.expected()) == {**everything, **dict([OLD])}
    first = case.rows(0)[0]
    job._there = [OLD, *first]
    assert dict(job.expected()) == {**everything, OLD[0]: None, **{row[0]: None for row in first}}
    job.case = replace(case, change="delete row")
    assert {row[0] for row in job.expected()} == {*everything, OLD[0]} - {first[0][0]}


@pytest.mark.parametrize("trigger", ["swallows", "keeps"])
def test_a_stop_without_its_cause_is_a_finding(tmp_path: Path, trigger: Any) -> None:
    case = replace(_case(), trigger=trigger, change="none")
    job = TableJob(case, SQLiteTarget(case, tmp_path), tmp_path)
    job.target.make()
    job._mend("a trigger of table orders leaves rows out")
    assert job.outcomes == [f"{trigger} reported"]
    with pytest.raises(AssertionError, match="without naming"):
        job._mend("something went wrong")
    assert {*SHOWN} >= {trigger}


def _case() -> TableCase:
    return next(case for seed in SEEDS if (case := table_case(seed)).kind == "sqlite" and case.mode == "append")


# ---- the summary


def test_draws_are_counted_by_suite() -> None:
    reports = []
    for name, draws in (("jobs", ["windows", "late rows"]), ("jobs", ["windows"]), ("tables", ["audits"])):
        properties: list[tuple[str, object]] = [("other", 1)]
        record(lambda key, value, into=properties: into.append((key, value)), *draws)  # type: ignore[misc]
        node = f"tests/random_jobs/test_random_{name}.py::test_it[1]"
        reports.append(SimpleNamespace(nodeid=node, user_properties=properties))
    assert summary(reports) == ["jobs: late rows 1, windows 2", "tables: audits 1"]
