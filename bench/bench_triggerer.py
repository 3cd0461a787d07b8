"""Cost of many coordinated jobs in one triggerer, and delay of its event loop.

    python bench/bench_triggerer.py [--jobs 200] [--seconds 60]

This process does what Airflow's triggerer does: it runs the triggers of --jobs deferred tasks in one event loop. The
workers of the jobs run in one other process, with two subtasks each and without Spark. They open their logs, answer
every barrier and publish nothing. So each JobMaster takes a checkpoint every ten seconds through the storage, a local
folder.

loop        delay of a sleep of 10 ms while the triggers run. Next to it: the delay before there are triggers, and the
            longest collection of Python's garbage collector meanwhile, which delays every thread
begun       from the first trigger's start until every job runs, with the delay of the loop meanwhile
CPU, PSS    of this process, for each job

Target: with 200 jobs, no delay of the loop reaches 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from tests.remote.cluster import Cluster
from tests.remote.master_process import Planner
from tests.remote.worker_process import WorkerProcess
from tests.simulation.runner import Runner
from tests.simulation.world import JOB

INTERVAL = 10.0
LATE = 0.01


class WallClock:
    """A clock with real time, in place of the simulation's clock."""

    @property
    def now(self) -> float:
        return time.monotonic()

    def __call__(self) -> float:
        return self.now


def _has_work(runner: Runner) -> bool:
    """Return False, because the runner reads nothing by itself."""
    return bool(runner.work)


class Workers(Cluster):
    """The planner and the only worker of a job in a folder."""

    def __init__(self, folder: Path) -> None:
        live = JobVertex("live", ("live",), ("live",), ("live",), (), bounded=False)
        reader = JobVertex("reader", ("reader",), (), (), (), bounded=False)
        graph = JobGraph((live, reader), (JobEdge("live__reader", "live", "reader", "reader"),))
        super().__init__(graph, {}, "streaming", [graph.subtasks], name=folder.name, seed=0)
        self.clock = WallClock()  # type: ignore[assignment]
        self.world.live = open_root(open_storage(folder))  # type: ignore[assignment]
        self.before_step = _has_work
        self.only = WorkerProcess(self, "w", graph.subtasks, "0", supervised=None)

    def at_verb(self, *about: object) -> None:
        """Do nothing, because nothing else runs or fails meanwhile."""


def folders(work: Path, count: int) -> list[Path]:
    return [work / f"job{number:04d}" for number in range(count)]


def play_workers(work: Path, count: int) -> None:
    """Prepare the jobs, report that, and play their workers for ever."""
    jobs = [Workers(folder) for folder in folders(work, count)]
    for job in jobs:
        Planner(job, "planner").step()
    print("prepared", flush=True)
    while True:
        for job in jobs:
            for _ in range(3):
                job.only.step()


# ---- the triggerer


def triggers(work: Path, count: int) -> Iterator[Any]:
    from airflow_provider_ckpt.remote.timing import Timing
    from airflow_provider_ckpt.triggers.job_master import JobMasterTrigger

    for folder in folders(work, count):
        options = RunOptions("played.py:job", str(folder), JOB, checkpoint_interval=INTERVAL, attempt="bench")
        made = JobMasterTrigger(
            job_id=JOB,
            options=options.to_json(),
            ckpt_conn_id=None,
            root=str(folder),
            group_id="orders",
            tasks={},
            timing=asdict(Timing.of(str(folder))),
        )
        made._task_instance = SimpleNamespace(dag_id="shop", run_id="r", task_id="coordinate", map_index=-1)
        yield made


async def watch(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + LATE
        await asyncio.sleep(LATE)
        late.append(time.perf_counter() - due)


async def watched(seconds: float, until: Any = lambda: False) -> list[float]:
    late: list[float] = []
    watching = asyncio.ensure_future(watch(late))
    ends = time.monotonic() + seconds
    # not in the loop, because this read of hundreds of journals would delay the loop most, and triggers do not do it
    while time.monotonic() < ends and not await asyncio.to_thread(until):
        await asyncio.sleep(0.5)
    watching.cancel()
    return late


async def start(made: list[Any], tasks: list[asyncio.Future[None]]) -> None:
    """Start the triggers as Airflow's runner does: it yields before each trigger, and after the load of its class."""
    for one in made:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(run_trigger(one)))


async def run_trigger(trigger: Any) -> None:
    async for event in trigger.run():
        print("a JobMaster has ended:", event.payload, flush=True)


def completed(work: Path, count: int) -> list[int]:
    found = []
    for folder in folders(work, count):
        found.append(Journal(open_storage(folder), JOB).replay().last_completed)
    return found


class Collections:
    """Times of the collections of Python's garbage collector."""

    def __init__(self) -> None:
        self._begun, self._took = 0.0, [0.0]
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: Any) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._begun = now
        else:
            self._took.append(now - self._begun)

    def longest(self) -> float:
        """Return the seconds of the longest collection since the last call."""
        took, self._took = self._took, [0.0]
        return max(took)


COLLECTIONS = Collections()


def told(name: str, late: list[float]) -> None:
    ordered = sorted(late)
    middle, nearly = statistics.median(ordered), ordered[int(len(ordered) * 0.999)]
    print(
        f"  loop {name:8} median {middle * 1000:6.1f} ms   99.9 % {nearly * 1000:6.1f} ms   "
        f"longest {ordered[-1] * 1000:6.1f} ms   collection {COLLECTIONS.longest() * 1000:6.1f} ms",
        flush=True,
    )


def pss() -> float:
    """Return the proportional set size of this process, in MB."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


async def measure(work: Path, count: int, seconds: float) -> None:
    made = list(triggers(work, count))
    told("before", await watched(10))
    memory, begun = pss(), time.monotonic()
    tasks: list[asyncio.Future[None]] = []
    starting = asyncio.ensure_future(start(made, tasks))

    def all_run() -> bool:
        return min(completed(work, count)) > 0

    told("begins", await watched(600, until=lambda: False if time.monotonic() - begun < 20 else all_run()))
    print(f"  begun: every job has taken a checkpoint after {time.monotonic() - begun:.0f} s", flush=True)
    spent, at, first = time.process_time(), time.monotonic(), completed(work, count)
    told("runs", await watched(seconds))
    lasted, used = time.monotonic() - at, time.process_time() - spent
    taken = sum(completed(work, count)) - sum(first)
    print(
        f"  {count} jobs: {used / lasted:.0%} of a core, {(pss() - memory) / count:.2f} MB each, "
        f"{taken / count:.1f} checkpoints each in {lasted:.0f} s",
        flush=True,
    )
    await starting
    for one in made:
        await one.cleanup()
    for task in tasks:
        task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--work", default="/tmp/ckpt-bench-triggerer")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    work = Path(args.work)
    if args.play:
        play_workers(work, args.jobs)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [sys.executable, __file__, "--play", "--jobs", str(args.jobs), "--work", str(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        assert player.stdout.readline().strip() == "prepared"
        try:
            asyncio.run(measure(work, args.jobs, args.seconds))
        finally:
            player.kill()
    shutil.rmtree(work, ignore_errors=True)
    os._exit(0)  # the JobMasters leave by themselves


if __name__ == "__main__":
    main()
