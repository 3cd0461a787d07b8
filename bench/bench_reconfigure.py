"""Change of a query in a running job: a reconfiguration against a stop with a savepoint and a new run.

    python bench/bench_reconfigure.py [--rounds 3] [--keys 100000] [--bytes 100] [--only logic …] [--plots docs/images]

The job has two queries over one live feed, each with a sink. ``marked`` keeps no state. ``keyed`` keeps a payload of
--bytes bytes for each of --keys keys, which is filled before the clock starts (after Trisk's own micro-benchmark).

logic   marked: another function          state   keyed: another function over the same state
pace    marked: another trigger interval  cut     keyed: its state in 8 parts instead of 4
upgrade the job resumes as another version in the same driver: both queries are paused

ours     `JobClient.reconfigure` (`JobClient.upgrade`) while the job runs
restart  `JobClient.stop`, and a start with the change as soon as the job has stopped (a new JVM). A restart cannot
         repartition state. For "cut" it changes nothing, and only shows the cost of a restart.
nothing  no request, for the gaps of an unchanged job

gap      the longest time between two published batches of the changed query, after the request
other    the longest such time of the other query; usual: the median of these times before the request
took     from the request to its answer (to RUNNING)
latency  age of a batch's oldest row when the batch is published: the greatest of the changed query after the request.
         ``--plots`` draws a chart of it over time for each kind of change, from the last round

Targets: gap at most 0.3 of the restart's (0.6 with 1 GB of state), other at most 1.2 of usual, logic of marked 1 s.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from bench import data, plans
from bench.changed_job import VERSION, ChangedJob
from bench.line_chart import Line, charts
from bench.one_run import JOB_ID
from bench.row_latency import latencies

VARIABLE = "CKPT_BENCH_RECONFIGURE"
BEFORE, AFTER = 8, 6
"""Published batches of each query before the request, and of both queries after it."""
SHOWN_BEFORE = 10.0
"""Seconds before the request that a chart shows."""
KINDS = {"logic": "marked", "pace": "marked", "state": "keyed", "cut": "keyed", "upgrade": "keyed"}
"""Kind of change -> the changed query."""


def build(given: dict[str, Any]) -> Any:
    from pyspark.sql import functions as F

    from airflow_provider_ckpt import FileSink, Job

    job, work, version = Job(JOB_ID), Path(given["work"]), os.environ.get(VERSION, "one")

    @job.source
    def live(read: Any) -> Any:
        return read.schema(plans.SCHEMA).parquet(str(work / "live"))

    @job.source(uid="fill_and_live")
    def fill(read: Any) -> Any:
        return read.schema(plans.SCHEMA).parquet(str(work / "live"))

    @job.transform(inputs=[live])
    def marked(rows: Any) -> Any:
        return rows.withColumn("version", F.lit(version))

    @job.transform(inputs=[fill], output_mode="update")
    def keyed(rows: Any) -> Any:
        payload = F.repeat(F.substring(F.sha2(F.col("order_id").cast("string"), 256), 1, 50), given["bytes"] // 50)
        last = F.max("order_id").alias("order_id")
        counted = rows.groupBy("customer").agg(F.count("*").alias("n"), F.max(payload).alias("payload"), last)
        added = F.col("n") + (0 if version == "one" else 1_000_000)
        return counted.select("customer", added.alias("n"), "payload", "order_id")

    job.sink("out_marked", marked, FileSink(str(work / "out_marked")))
    job.sink("out_keyed", keyed.uid, FileSink(str(work / "out_keyed")))
    return job


if VARIABLE in os.environ:
    job = build(json.loads(os.environ[VARIABLE]))


@dataclass(frozen=True)
class Figures:
    """The figures of one change, in seconds."""

    gap: float
    other: float
    usual: float
    took: float
    latency: float


class Case(ChangedJob):
    def __init__(self, work: Path, keys: int, size: int) -> None:
        super().__init__(work, "bench_reconfigure", VARIABLE, {"work": str(work), "bytes": size}, partitions=4)
        self.keys = keys
        self.curves: dict[str, Line] = {}
        """Query -> its curve: seconds since the request -> latency."""

    def measure(self, kind: str, how: str) -> Figures:
        with data.LiveFeed(self.work / "live"):
            self._fill()
            self.start()
            try:
                self.wait_for_batches(("marked", "keyed"), BEFORE)
                ways = {"ours": self._ours, "restart": self._restart, "nothing": self._nothing}
                return self._changed(KINDS[kind], functools.partial(ways[how], kind))
            finally:
                self.kill()

    def _fill(self) -> None:
        """Put a row for each key, to fill the state."""
        import numpy as np
        import pyarrow as pa
        from pyarrow import parquet

        ids = np.arange(self.keys, dtype=np.int64)
        table = {"order_id": ids, "customer": ids.astype(np.int32), "amount": ids / 100.0, "ts": ids}
        parquet.write_table(pa.table(table), self.work / "live" / ".fill")
        (self.work / "live" / ".fill").rename(self.work / "live" / "fill.parquet")

    def _changed(self, uid: str, change: Callable[[], None]) -> Figures:
        (other,) = {"marked", "keyed"} - {uid}
        at = time.time()
        change()
        took = time.time() - at
        self.wait_for_batches((uid, other), AFTER, since=at + took)
        usual = self.usual_gap(other, at)
        self.client.answer(self.client.stop(), 300)  # after a stop, all published rows are released
        for vertex in ("marked", "keyed"):
            found = latencies(self.log(vertex), self.work / "live", self.work / f"out_{vertex}", "order_id")
            self.curves[vertex] = [(when - at, age) for when, age in found[2:] if when - at > -SHOWN_BEFORE]
        latency = max(age for when, age in self.curves[uid] if when > 0)
        return Figures(self.longest_gap(uid, at), self.longest_gap(other, at), usual, took, latency)

    def _ours(self, kind: str) -> None:
        change = Reconfiguration()
        if kind == "upgrade":
            self.upgrade()
            return
        if kind == "pace":
            change.assign_workload("marked", trigger_interval="100ms")
        elif kind == "cut":
            change.assign_workload("keyed", state_partitions=8)
        else:
            change.assign_execution_logic(KINDS[kind], self.version)
        self.change(change, kind)

    def _restart(self, kind: str) -> None:
        more = {"trigger_interval": 0.1} if kind == "pace" else {}
        self.restart(self.version if kind in ("logic", "state", "upgrade") else None, **more)

    def _nothing(self, kind: str) -> None:
        """Let the job run without a request."""


def plot(file: Path, kind: str, curves: dict[str, dict[str, Line]]) -> None:
    changed = KINDS[kind]
    panels = {
        f"the changed query ({changed}: {kind})" if uid == changed else f"the other query ({uid})": {
            how: of_queries[uid] for how, of_queries in curves.items()
        }
        for uid in sorted(("marked", "keyed"), key=lambda uid: uid != changed)
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(charts(panels, "seconds since the request", "latency, s", "asked for"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=list(KINDS))
    args = parser.parse_args()
    base = data.scratch() / "reconfigure"
    for kind in args.only:
        found: dict[str, list[Figures]] = {"ours": [], "restart": [], "nothing": []}
        curves: dict[str, dict[str, Line]] = {}
        for _ in range(args.rounds):
            for how, rounds in found.items():
                case = Case(base / how, args.keys, args.bytes)
                rounds.append(case.measure(kind, how))
                curves[how] = case.curves
                print(kind, how, rounds[-1], file=sys.stderr, flush=True)  # rounds over a large state take minutes
        for how, rounds in found.items():
            middle = {n: statistics.median(getattr(one, n) for one in rounds) for n in Figures.__dataclass_fields__}
            gaps = ", ".join(f"{one.gap:.2f}" for one in rounds)
            print(
                f"{kind:6} {how:8} gap {middle['gap']:.2f} s ({gaps}); other {middle['other']:.2f} s, usual "
                f"{middle['usual']:.2f} s; took {middle['took']:.2f} s; latency {middle['latency']:.2f} s; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        ratio = statistics.median(a.gap / b.gap for a, b in zip(found["ours"], found["restart"], strict=True))
        print(f"{kind:6} gap ours / restart {ratio:.2f}", flush=True)
        if args.plots is not None:
            plot(args.plots / f"reconfigure-{kind}.svg", kind, curves)
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
