"""Nexmark's queries 1, 2, 5 and 8 as a job of the library, and the feed of an auction house that they read.

Each of the four queries reads the feed for itself, and the last one reads it twice. Of 50 events one is a person, three
are auctions, and the rest are bids (as in the generator of Nexmark). Times are the seconds of the feed's clock.

q1  each bid in euros                                   a function without state
q2  bids on some auctions                               a function without state
q5  the auctions with the most bids of a sliding window two aggregations, one over the other
q8  persons who opened auctions in a tumbling window    a join of two streams
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.changed_job import VERSION
from bench.feed import Feed
from bench.one_run import JOB_ID

VARIABLE = "CKPT_BENCH_NEXMARK"
QUERIES = ("q1", "q2", "q5", "q8")
SCHEMA = "kind STRING, id BIGINT, auction BIGINT, person BIGINT, price BIGINT, at TIMESTAMP"
EVERY = 0.5
"""Seconds between two files of the feed."""
_PERSONS, _AUCTIONS, _OF = 1, 3, 50
_OPEN_AUCTIONS = 100
"""Number of newest auctions that get bids."""
_LATE = "2 seconds"
_DOLLAR = 0.908
_SOME = 123


class AuctionHouse(Feed):
    """A folder that gets a file of ``count`` events each EVERY seconds, from a thread. Use it as a context."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, "events", EVERY)
        self._count, self._random = count, np.random.default_rng(5)
        self.put(0)

    def table(self, number: int) -> pa.Table:
        ids = number * self._count + np.arange(self._count, dtype=np.int64)
        place, rounds = ids % _OF, ids // _OF
        kinds = np.where(place < _PERSONS, "person", np.where(place < _PERSONS + _AUCTIONS, "auction", "bid"))
        newest = rounds * _AUCTIONS + np.clip(place - _PERSONS, 0, _AUCTIONS - 1)
        on = np.where(kinds == "bid", newest - self._random.integers(0, _OPEN_AUCTIONS, self._count), newest)
        of = np.where(kinds == "person", rounds, np.maximum(rounds - self._random.integers(0, 5, self._count), 0))
        columns = {
            "kind": kinds,
            "id": ids,
            "auction": np.maximum(on, 0),
            "person": of,
            "price": self._random.integers(100, 10_000, self._count),
            "at": pa.array(np.full(self._count, time.time_ns() // 1000), pa.timestamp("us", "UTC")),
        }
        return pa.table(columns)


def build(given: dict[str, Any]) -> Any:
    """Build the job. Rows of its second version differ only in the column ``version``."""
    from pyspark.sql import functions as F

    from airflow_provider_ckpt import FileSink, Job

    job, work = Job(JOB_ID), Path(given["work"])
    version = os.environ.get(VERSION, "one")

    def events(name: str) -> Any:
        @job.source(uid=f"events_{name}")
        def read_events(read: Any) -> Any:
            return read.schema(SCHEMA).parquet(str(work / "events"))

        return read_events

    def of_kind(rows: Any, kind: str) -> Any:
        return rows.where(F.col("kind") == kind)

    @job.transform(inputs=[events("q1")])
    def q1(rows: Any) -> Any:
        euros = (F.col("price") * _DOLLAR).alias("euros")
        return of_kind(rows, "bid").select("auction", "person", euros, "at", F.lit(version).alias("version"))

    @job.transform(inputs=[events("q2")])
    def q2(rows: Any) -> Any:
        some = of_kind(rows, "bid").where(F.col("auction") % _SOME == 0)
        return some.select("auction", "price", F.lit(version).alias("version"))

    @job.transform(inputs=[events("q5")])
    def q5(rows: Any) -> Any:
        bids = of_kind(rows.withWatermark("at", _LATE), "bid")
        counted = bids.groupBy(F.window("at", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("n"))
        most = counted.groupBy("window").agg(F.max_by("auction", "n").alias("auction"), F.max("n").alias("n"))
        return most.select("window.start", "auction", "n", F.lit(version).alias("version"))

    @job.transform(inputs={"persons": [events("persons")], "auctions": [events("auctions")]})
    def q8(persons: Any, auctions: Any) -> Any:
        def of_window(rows: Any, kind: str) -> Any:
            return of_kind(rows.withWatermark("at", _LATE).withColumn("window", F.window("at", "10 seconds")), kind)

        sellers = of_window(auctions, "auction").select("person", "window", "auction")
        joined = of_window(persons, "person").select("person", "window").join(sellers, ["person", "window"])
        return joined.select("person", "window.start", "auction", F.lit(version).alias("version"))

    for query in (q1, q2, q5, q8):
        job.sink(f"out_{query.uid}", query, FileSink(str(work / f"out_{query.uid}")))
    return job


if VARIABLE in os.environ:
    job = build(json.loads(os.environ[VARIABLE]))
