"""Age of live rows at their release while history is read, and the cost for history.

    python bench/bench_freshness.py [--rounds 2] [--only together apart] [--files-per-trigger 4]

The job is a filter and a projection over history (40 files) and a live feed (500 rows each half second) into one
folder, with a checkpoint each second. It has two forms, which take turns, each in a process of its own:

together    one query reads both: a live row waits for the micro-batch of history before it, and for its own
apart       two queries write to the same folder: live micro-batches share only the cores with those of history

seen        from the appearance of a live file to the release of its rows, for files that came while history was read
history     rows a second, from RUNNING until its last row is released; every kept row is counted

Targets: half of the live rows seen within 1 s, 95 % within 2 s, at 0.9 of the history's rows a second.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyarrow import compute, parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, race_plan
from bench.ckpt_run import CkptRun
from bench.race_plan import RacePlan

FORMS = ("together", "apart")


@dataclass(frozen=True)
class Fresh:
    """The figures of one run. ``seen``: seconds for each live file; ``rate``: rows of history a second."""

    seen: tuple[float, ...]
    rate: float

    def of(self, share: float) -> float:
        return sorted(self.seen)[min(len(self.seen) - 1, int(len(self.seen) * share))]


def measure(form: str, files_per_trigger: int) -> Fresh:
    work = data.scratch() / "freshness"
    shutil.rmtree(work, ignore_errors=True)
    history = data.history(data.scratch())
    plan = RacePlan(
        "A",
        "parquet",
        "parquet",
        history.folder,
        str(work),
        apart=form == "apart",
        files_per_trigger=files_per_trigger,
    )
    with data.LiveFeed(work / "live"):
        run = CkptRun(f"{race_plan.__file__}:job", work, plan.to_environ(), {})
        try:
            running = run.wait_for(lambda line: line["kind"] == "running")
            run.wait_for(lambda line: line["kind"] == "released" and "history" in line["finished_operators"])
        finally:
            run.stop()
    released = sorted(_released(work))
    ended = max(at for at, kept, _ in released if kept)
    if (kept := sum(kept for _, kept, _ in released)) != history.kept:
        raise SystemExit(f"{kept} rows of history are released, not {history.kept}")
    seen = tuple(_seen(work / "live", released, ended))
    shutil.rmtree(work)
    return Fresh(seen, history.rows / (ended - running["at"]))


def _released(work: Path) -> Iterator[tuple[float, int, int]]:
    """Yield release time, rows of history and number of the newest live file, for each file in the sinks' folder."""
    for file in (work / "out").glob("*.parquet"):
        ids = parquet.read_table(file, columns=["order_id"])["order_id"]
        newest = compute.max(ids).as_py() if len(ids) else -1
        number = data.live_file_of(newest)
        of_history = len(ids) if number < 0 else compute.sum(compute.less(ids, data.LIVE_FROM)).as_py()
        yield file.stat().st_ctime, of_history, number


def _seen(live: Path, released: list[tuple[float, int, int]], ended: float) -> Iterator[float]:
    """Yield the seconds of live files that came after the first release. Before it, neither form of the job is warm."""
    first, read = released[0][0], -1
    for at, _, newest in released:
        for number in range(read + 1, newest + 1):
            came = (live / f"live-{number:06d}.parquet").stat().st_mtime
            if first < came and at <= ended:
                yield at - came
        read = max(read, newest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--files-per-trigger", type=int, default=4, help="of history")
    given = parser.parse_args()
    data.history(data.scratch())
    rates: dict[str, list[float]] = {form: [] for form in given.only}
    for _ in range(given.rounds):
        for form in given.only:
            found = measure(form, given.files_per_trigger)
            rates[form].append(found.rate)
            print(
                f"{form:9} seen: half within {found.of(0.5):.2f} s, 95 % within {found.of(0.95):.2f} s "
                f"({len(found.seen)} files); history {found.rate / 1000:,.0f} k rows/s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    if set(FORMS) <= rates.keys():
        ratio = statistics.median(a / t for a, t in zip(rates["apart"], rates["together"], strict=True))
        print(f"history apart is {ratio:.2f} of together")


if __name__ == "__main__":
    main()
