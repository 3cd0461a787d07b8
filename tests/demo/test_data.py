"""Input of the demo, and its delivery."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dags_examples.demo_support.data import FILES_A_MONTH, LIVE_MONTH, RAW, LiveFeed, put, read_flights, split


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


def table(*days: tuple[int, int]) -> pa.Table:
    columns = {field.name: pa.nulls(len(days), field.type) for field in RAW}
    columns["month"] = pa.array([month for month, _ in days], pa.int32())
    columns["day"] = pa.array([day for _, day in days], pa.int32())
    return pa.table(columns, schema=RAW)


def test_the_flights_are_those_of_the_package(flights: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert flights.schema.equals(RAW)
    assert flights["dep_time"].null_count == 8255
    assert set(flights["month"].to_pylist()) == set(range(1, 13))


def test_every_flight_is_in_one_file_of_history_or_of_the_live_feed(flights: pa.Table) -> None:
    history, live = split(flights)
    names = [name for name, _ in [*history, *live]]
    assert (len(history), len(live), len(set(names))) == (11 * FILES_A_MONTH, 31, len(names))
    assert {month for _, rows in history for month in rows["month"].to_pylist()} == set(range(1, LIVE_MONTH))
    assert {month for _, rows in live for month in rows["month"].to_pylist()} == {LIVE_MONTH}
    for month in range(1, 13):
        files = [rows for name, rows in [*history, *live] if name.startswith(f"2013-{month:02d}-")]
        assert pa.concat_tables(files).equals(flights.filter(pc.field("month") == month))


def test_the_live_feed_delivers_its_days_in_order(tmp_path: Path) -> None:
    _, live = split(table((12, 3), (12, 1), (12, 3), (1, 1)))
    feed = LiveFeed(tmp_path / "live", live)
    feed.deliver(1)
    assert [path.name for path in feed.folder.iterdir()] == ["2013-12-01.parquet"]
    assert (feed.days, feed.rows) == (1, 1)
    feed.deliver(5)
    feed.deliver(1)
    assert (feed.days, feed.rows, feed.waiting) == (2, 3, [])
    assert Counter(pq.read_table(feed.folder / "2013-12-03.parquet")["day"].to_pylist()) == {3: 2}


def test_a_delivered_file_is_complete_and_leaves_no_other(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", table((1, 1)))
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 1
