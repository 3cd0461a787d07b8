"""User functions of random jobs. Every frame has the columns id, k, v, ts.

The job runs these functions, and so does one plain Spark batch for comparison. ``plain`` replaces a function there that
Spark runs only on streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

COLUMNS = ("id", "k", "v", "ts")
STORED = "id long, k long, v long, second long"
SCHEMA = "id long, k long, v long, ts timestamp"
JOIN_SECONDS = 5
WINDOW_SECONDS = 10
GAP_SECONDS = 3
HALF = 1_000_000_000_000
"""Added to the ids of repeated rows."""

Function = Callable[..., DataFrame]


@dataclass(frozen=True)
class Kind:
    """A kind of transform.

    ``needs``: the inputs that must have a watermark: "all", "alike" (all or none), "any" number. ``keeps``: each input
    row gives a fixed number of rows. ``emits``: "rows", or the "last" row of each id.
    """

    function: Function
    modes: tuple[str, ...] = ("append",)
    needs: str = "any"
    stateful: bool = False
    keeps: bool = False
    emits: str = "rows"
    plain: Function | None = None


def read(reader: Any, folder: str, *, zoned: bool = False, zone_type: str | None = None) -> DataFrame:
    """Read a source's files.

    Args:
        zoned: the files are in folders named ``zone=value``. The text of the zone is part of ``v``.
        zone_type: type of the zone; None: what the reader makes of the folders.
    """
    rows: DataFrame = reader.schema(STORED if zone_type is None else f"{STORED}, zone {zone_type}").parquet(folder)
    if zoned:
        text = F.concat(F.lit("zone "), F.coalesce("zone", F.lit("none")))
        rows = rows.withColumn("v", F.col("v") + F.crc32(text) % 97)
    return rows.select("id", "k", "v", F.timestamp_seconds("second").alias("ts"))


# ---- without state


def same(rows: DataFrame) -> DataFrame:
    return rows


def mapped(rows: DataFrame) -> DataFrame:
    return rows.withColumn("v", F.col("v") * 3 + 1)


def filtered(rows: DataFrame) -> DataFrame:
    return rows.where("id % 5 != 0")


def exploded(rows: DataFrame) -> DataFrame:
    twice = rows.withColumn("half", F.explode(F.array(F.lit(0), F.lit(1))))
    return twice.select((F.col("id") + F.col("half") * HALF).alias("id"), "k", "v", "ts")


def in_pandas(rows: DataFrame) -> DataFrame:
    def add(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(v=frame["v"] + 7)

    return rows.mapInPandas(add, SCHEMA)


# ---- with state


def windows(rows: DataFrame, span: int = WINDOW_SECONDS, slide: int | None = None) -> DataFrame:
    window = F.window("ts", f"{span} seconds", f"{slide or span} seconds")
    counted = rows.groupBy(window, "k").agg(F.sum("v").alias("total"), F.count(F.lit(1)).alias("n"))
    return counted.select(
        (F.unix_seconds("window.start") * 1000 + F.col("k")).alias("id"),
        "k",
        (F.col("total") * 1000 + F.col("n")).alias("v"),
        F.window_time("window").alias("ts"),
    )


def window_keys(rows: DataFrame, span: int = WINDOW_SECONDS, slide: int | None = None) -> DataFrame:
    """Return windows for output mode "update" or "complete": the id is the key of the window's last row."""
    return windows(rows, span, slide)


def sessions(rows: DataFrame, span: int = GAP_SECONDS) -> DataFrame:
    counted = rows.groupBy(F.session_window("ts", f"{span} seconds"), "k").agg(
        F.sum("v").alias("total"), F.count(F.lit(1)).alias("n")
    )
    return counted.select(
        (F.unix_seconds("session_window.start") * 1000 + F.col("k")).alias("id"),
        "k",
        (F.col("total") * 1000 + F.col("n")).alias("v"),
        F.col("session_window.end").alias("ts"),
    )


def counts(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy("k").agg(F.sum("v").alias("total"), F.count(F.lit(1)).alias("n"), F.max("ts").alias("ts"))
    return counted.select(F.col("k").alias("id"), "k", (F.col("total") * 1000 + F.col("n")).alias("v"), "ts")


def first_of_id(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["id"])


def first_of_id_in_time(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["id", "ts"])


def first_within_watermark(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark(["id"])


def distinct(rows: DataFrame) -> DataFrame:
    return rows.distinct()


def limited(rows: DataFrame) -> DataFrame:
    return rows.limit(7)


def _joined(left: DataFrame, right: DataFrame, how: str, span: int) -> DataFrame:
    a = left.select(
        F.col("id").alias("a_id"), F.col("k").alias("a_k"), F.col("v").alias("a_v"), F.col("ts").alias("ts")
    )
    b = right.select(F.col("id").alias("b_id"), F.col("k").alias("b_k"), F.col("ts").alias("b_ts"))
    near = F.expr(f"a_k = b_k AND ts >= b_ts - INTERVAL {span} SECONDS AND ts <= b_ts + INTERVAL {span} SECONDS")
    both = a.join(b, near, how)
    pair = F.xxhash64("a_id", F.coalesce("b_id", F.lit(-1)))
    return both.select(pair.alias("id"), F.col("a_k").alias("k"), F.col("a_v").alias("v"), "ts")


def joined(left: DataFrame, right: DataFrame, span: int = JOIN_SECONDS) -> DataFrame:
    return _joined(left, right, "inner", span)


def left_joined(left: DataFrame, right: DataFrame, span: int = JOIN_SECONDS) -> DataFrame:
    return _joined(left, right, "leftOuter", span)


def first_in_pandas(rows: DataFrame) -> DataFrame:
    def first(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        seen = state.exists
        for frame in frames:
            if not seen and len(frame):
                seen = True
                yield frame.head(1)
        state.update((1,))

    return rows.groupBy("id").applyInPandasWithState(first, SCHEMA, "seen int", "append", "NoTimeout")


def counted_in_pandas(rows: DataFrame) -> DataFrame:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n, total = state.get if state.exists else (0, 0)
        for frame in frames:
            n, total = n + len(frame), total + int(frame["v"].sum())
        state.update((n, total))
        yield pd.DataFrame({"id": [key[0]], "k": [key[0]], "v": [total * 1000 + n]})

    counted = rows.groupBy("k").applyInPandasWithState(
        count, "id long, k long, v long", "n long, total long", "update", "NoTimeout"
    )
    return counted.withColumn("ts", F.timestamp_seconds(F.lit(0)))


def counted_plainly(rows: DataFrame) -> DataFrame:
    return counts(rows).withColumn("ts", F.timestamp_seconds(F.lit(0)))


class First(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "seen int")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        seen = self._seen.exists()
        for frame in rows:
            if not seen and len(frame):
                seen = True
                yield frame.head(1)
        self._seen.update((1,))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class Count(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sums = handle.getValueState("sums", "n long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        n, total = self._sums.get() or (0, 0) if self._sums.exists() else (0, 0)
        for frame in rows:
            n, total = n + len(frame), total + int(frame["v"].sum())
        self._sums.update((n, total))
        yield pd.DataFrame({"id": [key[0]], "k": [key[0]], "v": [total * 1000 + n]})

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def first_with_state(rows: DataFrame) -> DataFrame:
    return rows.groupBy("id").transformWithStateInPandas(First(), SCHEMA, "append", "none")


def counted_with_state(rows: DataFrame) -> DataFrame:
    counted = rows.groupBy("k").transformWithStateInPandas(Count(), "id long, k long, v long", "update", "none")
    return counted.withColumn("ts", F.timestamp_seconds(F.lit(0)))


KINDS: Mapping[str, Kind] = {
    "union": Kind(same, keeps=True),
    "map": Kind(mapped, keeps=True),
    "filter": Kind(filtered),
    "explode": Kind(exploded, keeps=True),
    "pandas": Kind(in_pandas, keeps=True),
    "windows": Kind(windows, needs="all", stateful=True),
    "window_keys": Kind(window_keys, modes=("update", "complete"), needs="alike", stateful=True, emits="last"),
    "sessions": Kind(sessions, needs="all", stateful=True),
    "counts": Kind(counts, modes=("update", "complete"), stateful=True, emits="last"),
    "dedup": Kind(first_of_id, stateful=True),
    "dedup_in_time": Kind(first_of_id_in_time, needs="all", stateful=True),
    "dedup_within": Kind(first_within_watermark, needs="all", stateful=True, plain=first_of_id),
    "distinct": Kind(distinct, needs="alike", stateful=True),
    "limit": Kind(limited, stateful=True, plain=same),
    "join": Kind(joined, stateful=True),
    "left_join": Kind(left_joined, needs="all", stateful=True),
    "pandas_first": Kind(first_in_pandas, stateful=True, plain=first_of_id),
    "pandas_counts": Kind(counted_in_pandas, modes=("update",), stateful=True, emits="last", plain=counted_plainly),
    "state_first": Kind(first_with_state, stateful=True, plain=first_of_id),
    "state_counts": Kind(counted_with_state, modes=("update",), stateful=True, emits="last", plain=counted_plainly),
}
JOINS = ("join", "left_join")
