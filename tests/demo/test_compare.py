"""Expected outputs of the demo, and search for differences."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_ckpt.sinks.file.manifest_log import Manifest, ReleasedFile
from dags_examples.demo_support import compare
from dags_examples.demo_support.data import RAW

AT = datetime(2013, 1, 1, 10, 15, tzinfo=timezone.utc)
MICROS = int(AT.timestamp()) * 1_000_000


def raw(**changed: Any) -> dict[str, Any]:
    row = {"year": 2013, "month": 1, "day": 1, "minute": 15, "time_hour": AT.replace(minute=0), "carrier": "UA"}
    row |= {"flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "distance": 1400}
    return {**row, "dep_time": 517, "dep_delay": 2, "arr_delay": 11, **changed}


CANCELLED = raw(dep_time=None, dep_delay=None, arr_delay=None, tailnum=None)


def flights(*rows: dict[str, Any]) -> pa.Table:
    return compare.expected_flights(pa.Table.from_pylist(list(rows), RAW))


def test_the_expected_row_of_a_flight_is_cleaned() -> None:
    (row,) = compare.rows_of(flights(raw()))
    day = date(2013, 1, 1)
    assert row == (MICROS, day, 1, "UA", 1545, "N14228", "EWR", "IAH", 1400, False, 2, 11)


def test_expected_delays_are_counted_by_day_and_carrier() -> None:
    rows = [raw(), raw(dep_delay=-3), CANCELLED, {**CANCELLED, "carrier": "AA"}]
    day = date(2013, 1, 1)
    assert compare.rows_of(compare.expected_delays(flights(*rows))) == {
        (day, "UA", 3, 1, -1, 22): 1,
        (day, "AA", 1, 1, None, None): 1,
    }


@pytest.mark.parametrize(
    ("actual", "missing", "extra"),
    [
        ({(1,): 2, (2,): 1}, 0, 0),
        ({(1,): 1, (2,): 1}, 1, 0),
        ({(1,): 3, (2,): 1}, 0, 1),
        ({(1,): 2, (3,): 1}, 1, 1),
        ({}, 3, 0),
    ],
)
def test_missing_and_repeated_rows_are_found(actual: dict[tuple[int], int], missing: int, extra: int) -> None:
    difference = compare.difference(Counter({(1,): 2, (2,): 1}), Counter(actual))
    assert (difference.missing, difference.extra, difference.equal) == (missing, extra, not missing and not extra)
    assert bool(difference.examples) == (not difference.equal)


@pytest.mark.parametrize("unit", [pa.timestamp("ns"), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_released_flights_are_read_whatever_timestamps_spark_writes(unit: pa.DataType, tmp_path: Path) -> None:
    expected = flights(raw(), CANCELLED)
    (tmp_path / "month=1").mkdir()
    index = expected.schema.get_field_index("scheduled")
    spelled = pa.array([AT if unit.tz else AT.replace(tzinfo=None)] * 2, unit)
    pq.write_table(
        expected.set_column(index, "scheduled", spelled).drop_columns(["month"]), tmp_path / "month=1" / "a.parquet"
    )
    released = compare.released_flights(tmp_path, ["month=1/a.parquet"])
    assert compare.rows_of(released) == compare.rows_of(expected)
    assert compare.by_month(released) == {1: 2}
    assert compare.rows_of(compare.released_flights(tmp_path, ["month=1/a.parquet"] * 2)).total() == 4


def test_the_newest_delays_count(tmp_path: Path) -> None:
    first = compare.expected_delays(flights(raw()))
    second = compare.expected_delays(flights(raw(), raw(), {**raw(), "carrier": "AA"}))
    pq.write_table(second, tmp_path / "b.parquet")
    pq.write_table(first, tmp_path / "a.parquet")
    newest = compare.newest_delays(tmp_path, ["b.parquet", "a.parquet"])
    assert compare.rows_of(newest) == compare.rows_of(second)


def test_a_reader_of_the_folder_sees_released_files_only(tmp_path: Path) -> None:
    for name in ("month=1/a.parquet", "_ckpt/job/sink/staging/x/month=1/b.parquet", "month=1/.c.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert compare.data_files(tmp_path) == {"month=1/a.parquet"}


def test_rows_of_a_release_are_counted_by_month(tmp_path: Path) -> None:
    for name, rows in (("month=1/a.parquet", 3), ("month=12/b.parquet", 2), ("month=12/c.parquet", 1)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"flight": list(range(rows))}), tmp_path / name)

    def manifest(checkpoint: int, *names: str) -> Manifest:
        return Manifest("j", "s", checkpoint, 0, (), tuple(ReleasedFile(name, 1) for name in names))

    manifests = [manifest(1, "month=1/a.parquet", "month=12/b.parquet"), manifest(4, "month=12/c.parquet")]
    assert compare.months_by_checkpoint(tmp_path, manifests) == {1: {1: 3, 12: 2}, 4: {12: 1}}
