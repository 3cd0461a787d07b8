"""Input of bench_splits.py: rows that Spark generates, or a CSV file for each split."""

from __future__ import annotations

import functools
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

SCHEMA = "order_id LONG, customer INT, amount DOUBLE"


def ranges(splits: int, rows: int, files: str | None) -> list[dict[str, Any]]:
    bounds = [rows * number // splits for number in range(splits + 1)]
    found = [{"id": str(n), "from": a, "to": b} for n, (a, b) in enumerate(pairwise(bounds))]
    return [{**one, "file": f"{files}/{one['id']}.csv"} for one in found] if files else found


def orders(spark: Any, start: int, end: int) -> Any:
    numbers = spark.range(start, end, numPartitions=1 if end - start < 1_000_000 else None)
    return numbers.selectExpr("id AS order_id", "CAST(id % 100000 AS INT) AS customer", "CAST(id AS DOUBLE) AS amount")


def archive(base: Path, splits: int, rows: int) -> str:
    """Make a CSV file for each split, unless the files exist. Return their folder."""
    folder = base / f"csv-{rows}-{splits}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for one in ranges(splits, rows, str(unfinished)):
            _write(one)
        unfinished.rename(folder)
    return str(folder)


def _write(split: dict[str, Any]) -> None:
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    ids = np.arange(split["from"], split["to"])
    table = pa.table({"order_id": ids, "customer": ids % 100_000, "amount": ids.astype(float)})
    csv.write_csv(table, split["file"], csv.WriteOptions(include_header=False))


def orders_of(spark: Any, several: list[dict[str, Any]]) -> Any:
    """Return the rows of several splits. Adjacent splits become one range, as a user would write one query for them."""
    if "file" in several[0]:
        return spark.read.schema(SCHEMA).csv([one["file"] for one in several])
    joined: list[list[int]] = []
    for one in several:
        if joined and joined[-1][1] == one["from"]:
            joined[-1][1] = one["to"]
        else:
            joined.append([one["from"], one["to"]])
    return functools.reduce(lambda a, b: a.union(b), [orders(spark, *each) for each in joined])
