"""Data of the benchmarks: orders as Parquet or CSV files. They are the same on every machine, and are made once.

python bench/data.py [folder]         (CKPT_BENCH_ROWS=10000000 rows in CKPT_BENCH_FILES=40 files)
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.feed import SUFFIXES, Feed, write

CUSTOMERS = 100_000
CENTS = 10_000
KEPT_FROM = 1_000
"""Amounts below 10.00 are filtered out: a tenth of the rows."""
LIVE_ROWS = 500
LIVE_EVERY = 0.5
"""Seconds between two files of the live feed."""
LIVE_CUSTOMERS = 1_000
"""Number of customers of live rows. Their ids are above those of history, so that both kinds of rows differ."""
LIVE_FROM = 1 << 40
_MS = 1_760_000_000_000


@dataclass(frozen=True)
class History:
    """The history. ``id_sum`` and ``cents_sum`` are sums over the kept rows, which prove that an output is complete."""

    folder: str
    rows: int
    files: int
    kept: int
    id_sum: int
    cents_sum: int


def scratch() -> Path:
    """Return CKPT_BENCH_DIR, or a folder in the system's temporary folder."""
    return Path(os.environ.get("CKPT_BENCH_DIR") or Path(tempfile.gettempdir()) / "ckpt-bench")


def history(base: Path, rows: int | None = None, files: int | None = None, kind: str = "parquet") -> History:
    """Return the history of ``rows`` rows below ``base``. Make it if it does not exist.

    Args:
        base: folder of all histories.
        rows: by default CKPT_BENCH_ROWS.
        files: by default CKPT_BENCH_FILES.
        kind: parquet or csv. Each kind of files has the same rows.
    """
    rows = rows or int(os.environ.get("CKPT_BENCH_ROWS", "10000000"))
    files = files or int(os.environ.get("CKPT_BENCH_FILES", "40"))
    folder = base / (f"orders-{rows}-{files}" + ("" if kind == "parquet" else f"-{kind}"))
    summary = folder.with_suffix(".json")
    if not summary.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        summary.write_text(json.dumps(asdict(_write(folder, rows // files, files, kind))))
    return History(**json.loads(summary.read_text()))


def _write(folder: Path, rows_each: int, files: int, kind: str) -> History:
    generator = np.random.default_rng(7)
    kept = id_sum = cents_sum = 0
    for number in range(files):
        ids = np.arange(number * rows_each, (number + 1) * rows_each, dtype=np.int64)
        cents = generator.integers(0, CENTS, rows_each)
        customers = generator.integers(0, CUSTOMERS, rows_each)
        write(_table(ids, cents, customers), folder / f"part-{number:04d}{SUFFIXES[kind]}", kind)
        chosen = cents >= KEPT_FROM
        kept += int(chosen.sum())
        id_sum += int(ids[chosen].sum())
        cents_sum += int(cents[chosen].sum())
    return History(str(folder), rows_each * files, files, kept, id_sum, cents_sum)


def _table(ids: np.ndarray, cents: np.ndarray, customers: np.ndarray) -> pa.Table:
    columns = {"order_id": ids, "customer": customers.astype(np.int32), "amount": cents / 100.0, "ts": _MS + ids // 10}
    return pa.table(columns)


class LiveFeed(Feed):
    """A folder that gets a file of LIVE_ROWS rows each LIVE_EVERY seconds, from a thread. Use it as a context."""

    def __init__(self, folder: Path, kind: str = "parquet") -> None:
        super().__init__(folder, "live", LIVE_EVERY, kind)
        self.rows = LIVE_ROWS
        """Rows of a file. The caller may set fewer."""
        self._generator = np.random.default_rng(11)
        self.put(0)

    def table(self, number: int) -> pa.Table:
        ids = LIVE_FROM + number * LIVE_ROWS + np.arange(self.rows, dtype=np.int64)
        cents = self._generator.integers(0, CENTS, self.rows)
        customers = CUSTOMERS + self._generator.integers(0, LIVE_CUSTOMERS, self.rows)
        return _table(ids, cents, customers)


def sums(variant: str, rows: pa.Table) -> tuple[int, int, int]:
    """Return the number of kept rows of history, the sum of their ids, and the sum of their cents.

    A complete output has the figures of :class:`History`. For an output of B, use the newest row of each customer.

    Args:
        variant: A or B.
        rows: of the output.
    """
    if variant == "A":
        rows = rows.filter(compute.less(rows["order_id"], LIVE_FROM))
        return len(rows), compute.sum(rows["order_id"]).as_py() or 0, compute.sum(rows["cents"]).as_py() or 0
    rows = rows.filter(compute.less(rows["customer"], CUSTOMERS))
    newest = rows.group_by("customer").aggregate([("n", "max"), ("ids", "max"), ("cents", "max")])
    kept, ids, cents = (compute.sum(newest[f"{name}_max"]).as_py() or 0 for name in ("n", "ids", "cents"))
    return kept, ids, cents


def live_file_of(order_id: int) -> int:
    """Return the number of the live feed's file with the row; below 0 for a row of another source."""
    return (order_id - LIVE_FROM) // LIVE_ROWS


if __name__ == "__main__":
    print(history(Path(sys.argv[1]) if len(sys.argv) > 1 else scratch()))
