"""Change of a function in a running Nexmark query, against a stop with a savepoint and a new run.

    python bench/bench_nexmark.py [--rounds 1] [--events 2000] [--only q1 q2 q5 q8]

Queries 1, 2, 5 and 8 (see nexmark.py) are one job, over a feed that gets --events events each half second. One of the
queries is given another function, which uses the same state.

ours     `JobClient.reconfigure` while the job runs
restart  `JobClient.stop`, and a start with the other function as soon as the job has stopped (a new JVM)
nothing  no request, for the gaps of an unchanged job

gap      the longest time between two published batches of the changed query, after the request
others   the longest such time of the other three queries; usual: the median of these times before the request

Targets: gap at most 0.3 of the restart's, others at most 1.2 of their usual one, q1 and q2 (no state) 1 s.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from bench import data
from bench.changed_job import ChangedJob
from bench.nexmark import QUERIES, VARIABLE, AuctionHouse

BEFORE, AFTER = 12, 8
"""Published batches of each query before the request and after it."""
WAYS = ("ours", "restart", "nothing")


@dataclass(frozen=True)
class Figures:
    """The figures of one change, in seconds."""

    gap: float
    others: float
    usual: float


def measure(work: Path, query: str, way: str, events: int) -> Figures:
    job = ChangedJob(work, "nexmark", VARIABLE, {"work": str(work)}, partitions=2)
    with AuctionHouse(work / "events", events):
        job.start()
        try:
            job.wait_for_batches(QUERIES, BEFORE)
            at = time.time()
            if way == "ours":
                change = Reconfiguration()
                change.assign_execution_logic(query, job.version)
                job.change(change, query)
            elif way == "restart":
                job.restart(job.version)
            job.wait_for_batches(QUERIES, AFTER, since=time.time())
        finally:
            job.kill()
    others = [one for one in QUERIES if one != query]
    usual = statistics.median(job.usual_gap(one, at) for one in others)
    return Figures(job.longest_gap(query, at), max(job.longest_gap(one, at) for one in others), usual)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--only", nargs="+", choices=QUERIES, default=QUERIES)
    args = parser.parse_args()
    base = data.scratch() / "nexmark"
    for query in args.only:
        found: dict[str, list[Figures]] = {way: [] for way in WAYS}
        for _ in range(args.rounds):
            for way, rounds in found.items():
                rounds.append(measure(base / way, query, way, args.events))
        for way, rounds in found.items():
            middle = {n: statistics.median(getattr(one, n) for one in rounds) for n in Figures.__dataclass_fields__}
            print(
                f"{query} {way:8} gap {middle['gap']:.2f} s; others {middle['others']:.2f} s, usual "
                f"{middle['usual']:.2f} s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        ratio = statistics.median(a.gap / b.gap for a, b in zip(found["ours"], found["restart"], strict=True))
        print(f"{query} gap ours / restart {ratio:.2f}", flush=True)
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
