"""Speed of the journal: events a second through the write buffer and in replay, on a local disk, for several lengths.

Run from the checkout: ``python bench/bench_journal.py [folder]`` (the folder decides which disk is measured).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage

COUNTS = (50_000, 100_000, 200_000, 400_000)
DECISIONS = 300
ROUNDS = 3


def mixed(count: int) -> Iterator[ev.Event]:
    for number in range(count):
        at = 1_700_000_000.0 + number / 1000
        kind = number % 3
        if kind == 0:
            yield ev.CheckpointAborted(number, "CHECKPOINT_EXPIRED", at)
        elif kind == 1:
            yield ev.LateFilesFound("history", (f"part-{number}.parquet",), False, at)
        else:
            yield ev.RequestAnswered(f"r-{number}", "stop", RequestOutcome(RequestResult.ALREADY_STOPPING), at)


def measure(folder: str, count: int) -> tuple[float, float, int]:
    """Return the seconds to write, the seconds to replay, and the entries. The times are the best of some rounds."""
    writes, replays, entries = [], [], 0
    events = list(mixed(count))
    for round_ in range(ROUNDS):
        storage = open_storage(f"{folder}/{count}-{round_}")
        journal = Journal(storage, "bench")
        journal.claim("t1", Worker(), 0.0)
        start = time.perf_counter()
        for event in events:
            journal.write(event)
        journal.flush()
        writes.append(time.perf_counter() - start)
        start = time.perf_counter()
        state = Journal(storage, "bench").replay()
        replays.append(time.perf_counter() - start)
        if state.aborted_count != (count + 2) // 3:
            raise SystemExit(f"replay lost events: {state.aborted_count} checkpoints aborted")
        entries = len(storage.list("bench/journal"))
        storage.delete_tree("")
    return min(writes), min(replays), entries


def measure_decisions(folder: str) -> tuple[float, float]:
    """Return the seconds for one flushed decision: median and 99th percentile."""
    storage = open_storage(f"{folder}/decisions")
    journal = Journal(storage, "bench")
    journal.claim("t1", Worker(), 0.0)
    took = []
    for number in range(DECISIONS):
        start = time.perf_counter()
        journal.write(ev.CheckpointTriggered(number, 0.0))
        took.append(time.perf_counter() - start)
    storage.delete_tree("")
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        print(f"{'events':>8} {'entries':>8} {'write ev/s':>12} {'replay ev/s':>12}")
        for count in COUNTS:
            write, replay, entries = measure(folder, count)
            print(f"{count:>8} {entries:>8} {count / write:>12,.0f} {count / replay:>12,.0f}")
        median, slowest = measure_decisions(folder)
        print(f"a flushed decision: median {median * 1e3:.2f} ms, 99 % within {slowest * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
