"""A row-by-row comparison of the outputs with the output expected from the input, computed without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_ckpt.sinks.file.manifests import Manifest

FLIGHT = (
    "scheduled",
    "day",
    "month",
    "carrier",
    "flight",
    "tail_number",
    "origin",
    "destination",
    "distance",
    "cancelled",
    "departure_delay",
    "arrival_delay",
)
DELAYS = ("day", "carrier", "flights", "cancelled", "departure_delay", "arrival_delay")

Row = tuple[Any, ...]
Rows = Counter[Row]
"""Row → how often it occurs."""


@dataclass(frozen=True)
class Difference:
    expected: int
    actual: int
    missing: int
    extra: int
    """Surplus rows, including repeated ones."""
    examples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra and self.expected == self.actual


def difference(expected: Rows, actual: Rows) -> Difference:
    missing, extra = expected - actual, actual - expected
    examples = [f"missing {row}" for row in list(missing)[:3]] + [f"too many {row}" for row in list(extra)[:3]]
    return Difference(expected.total(), actual.total(), missing.total(), extra.total(), tuple(examples))


def expected_flights(raw: pa.Table) -> pa.Table:
    minutes = pc.multiply(raw["minute"].cast(pa.int64()), 60_000_000)
    scheduled = pc.add(raw["time_hour"].cast(pa.int64()), minutes)
    days = [date(*ymd) for ymd in zip(*(raw[name].to_pylist() for name in ("year", "month", "day")), strict=True)]
    columns = {
        "scheduled": scheduled,
        "day": pa.array(days, pa.date32()),
        "cancelled": pc.is_null(raw["dep_time"]),
        "tail_number": raw["tailnum"],
        "destination": raw["dest"],
        "departure_delay": raw["dep_delay"],
        "arrival_delay": raw["arr_delay"],
    }
    return pa.table({name: columns[name] if name in columns else raw[name] for name in FLIGHT})


def expected_delays(flights: pa.Table) -> pa.Table:
    counted = flights.append_column("cancelled_count", flights["cancelled"].cast(pa.int64()))
    sums = [(name, "sum") for name in ("cancelled_count", "departure_delay", "arrival_delay")]
    found = counted.group_by(["day", "carrier"]).aggregate([([], "count_all"), *sums])
    named = found.select(
        ["day", "carrier", "count_all", "cancelled_count_sum", "departure_delay_sum", "arrival_delay_sum"]
    )
    return named.rename_columns(list(DELAYS))


def released_flights(folder: Path, files: list[str]) -> pa.Table:
    """``files``: released paths relative to ``folder``; the month of a flight is in its file's path."""
    tables = [_with_month(pq.read_table(folder / file, partitioning=None), month_of(file)) for file in files]
    table = pa.concat_tables(tables)
    micros = table["scheduled"].cast(pa.timestamp("us", table.schema.field("scheduled").type.tz)).cast(pa.int64())
    return table.set_column(table.schema.get_field_index("scheduled"), "scheduled", micros).select(list(FLIGHT))


def newest_delays(folder: Path, files: list[str]) -> pa.Table:
    """Return for each day and carrier the row with the most flights, because counts only grow."""
    every = pa.concat_tables([pq.read_table(folder / file).select(list(DELAYS)) for file in files])
    newest: dict[Row, Row] = {}
    for row in zip(*(column.to_pylist() for column in every.columns), strict=True):
        if row[:2] not in newest or newest[row[:2]][2] < row[2]:
            newest[row[:2]] = row
    columns = list(zip(*newest.values(), strict=True)) or [()] * len(DELAYS)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, every.schema, strict=True)], DELAYS)


def rows_of(table: pa.Table) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def by_month(table: pa.Table) -> dict[int, int]:
    return dict(Counter(table["month"].to_pylist()))


def month_of(file: str) -> int:
    return int(file.split("/")[0].removeprefix("month="))


def _with_month(table: pa.Table, month: int) -> pa.Table:
    return table.append_column("month", pa.array([month] * table.num_rows, pa.int32()))


def months_by_checkpoint(folder: Path, manifests: list[Manifest]) -> dict[int, Mapping[int, int]]:
    """Return checkpoint → month → flights that its release made visible."""
    found: dict[int, Mapping[int, int]] = {}
    for manifest in manifests:
        months: Counter[int] = Counter()
        for file in manifest.files:
            months[month_of(file.path)] += pq.read_metadata(folder / file.path).num_rows
        found[manifest.checkpoint] = months
    return found


def data_files(folder: Path) -> set[str]:
    """Return the files that a reader of the folder sees: Spark and Hive skip names that begin with an underscore or
    a dot.
    """
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))
    return {name for name in names if not any(part.startswith(("_", ".")) for part in name.split("/"))}
