"""A job with a process for each worker and for the JobMaster, and the actions of tests on them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.storage.opening import open_storage
from tests.support.processes import Process
from tests.support.waiting import wait_until
from tests.workers.jobs.rows import FIRST_LIVE, of_split

JOB = Path(__file__).parent / "jobs" / "five.py"
JOB_ID = "five"
VERTICES = ("history", "archive", "live", "orders", "cold")
GROUPS = ("history+archive", "live", "orders+cold")
"""Groups of vertices for tests that need fewer processes."""
PATIENCE = 300.0
"""Timeout in seconds. Five JVMs may start on two cores while the machine does other work."""
CONF = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.pollingDelay": "50ms",
}
_FLAGS = [flag for key, value in CONF.items() for flag in ("--conf", f"{key}={value}")]


class Member(Process):
    """A planner, a master, a worker or a driver, and the status lines it has printed."""

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        lines = [
            json.loads(line) for line in self.text().splitlines() if line.startswith('{"kind"') and line[-1] == "}"
        ]
        return [line for line in lines if not kinds or line["kind"] in kinds]

    def wait_for(self, *kinds: str, count: int = 1, seconds: float = PATIENCE) -> dict[str, Any]:
        """Return the ``count``-th line of these kinds. Fail at once if the process ends before it."""

        def look() -> list[dict[str, Any]]:
            ended = self.exit_code
            lines = self.lines(*kinds)
            assert len(lines) >= count or ended is None, f"{self} ended with {ended} before {kinds}\n{self.tail()}"
            return lines[count - 1 :]

        return wait_until(look, lambda: f"{count} x {kinds} of {self}\n{self.tail()}", seconds=seconds)[0]

    def kill(self) -> None:
        """Kill the process and its JVM with ``kill -9``."""
        self.end()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM to the process itself, like a shell's ``kill``."""
        self.signal(signal.SIGTERM, [self.pid])


class World:
    """A job under ``base``, an empty folder. Leaving the context kills every process that was started in it.

    ``flags``: passed to all processes.
    """

    job, job_id = JOB, JOB_ID

    def __init__(self, base: Path, *flags: str, splits: int = 60) -> None:
        self.base, self.splits = base, splits
        self.root = base / "ckpt"
        self.storage = open_storage(str(self.root))
        self.client = JobClient(str(self.root), self.job_id)
        self.members: list[Member] = []
        self.live_ids: list[int] = []
        self.flags = ["--checkpoint-interval", "500ms", "--retained-checkpoints", "100", *flags]
        (base / "live").mkdir()
        self.slow(True)
        self.feed()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        for member in self.members:
            member.end()

    # -- processes

    def start(self, command: str, *flags: str, env: Mapping[str, str] | None = None) -> Member:
        name = f"{len(self.members):02d}-{command}{'-'.join(f.replace('/', '_') for f in flags if f[0] != '-')}"
        argv = [sys.executable, "-m", "tests.workers.command", command, f"{self.job}:job"]
        allowed = ["--allow-code-from", str(self.base)]  # where tests write other versions of the job
        taking = [] if command == "worker" else ["--take-over"]  # from one that is frozen, or on another host
        environ = {"CKPT_WORKERS_BASE": str(self.base), "CKPT_WORKERS_SPLITS": str(self.splits), **(env or {})}
        member = Member(
            [*argv, "--root", str(self.root), "--json", *allowed, *self.flags, *_FLAGS, *taking, *flags],
            self.base / f"{name}.log",
            env=environ,
        )
        self.members.append(member)
        return member

    def plan(self) -> None:
        assert (planner := self.start("plan")).wait(PATIENCE) == 0, planner.tail()

    def master(self, *flags: str, **env: str) -> Member:
        return self.start("master", *flags, env=env)

    def worker(self, *subtasks: str, **env: str) -> Member:
        asked = [each for subtask in subtasks for each in ("--subtask", subtask)]
        return self.start("worker", *asked, env=env)

    def workers(self, groups: Iterable[str] = VERTICES) -> dict[str, Member]:
        """Start a worker for each group of vertices. Return group -> worker."""
        return {group: self.worker(*group.split("+")) for group in groups}

    # -- input

    def slow(self, is_slow: bool) -> None:
        """Make splits slow, so that the sources with splits last as long as the test, or fast."""
        (self.base / "slow").touch() if is_slow else (self.base / "slow").unlink(missing_ok=True)

    def feed(self, rows: int = 10) -> None:
        first = FIRST_LIVE + len(self.live_ids)
        path = self.base / "live" / f"l{first}.json"
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("".join(f'{{"id": {n}, "kind": "live"}}\n' for n in range(first, first + rows)))
        os.rename(hidden, path)
        self.live_ids += range(first, first + rows)

    def expected(self, sink: str) -> list[int]:
        source = {"lake": "history", "cellar": "archive"}[sink]
        return [*(each for number in range(self.splits) for each in of_split(source, number)), *self.live_ids]

    # -- queries

    def state(self) -> JobState:
        return Journal(self.storage, self.job_id).replay()

    def readings(self) -> list[tuple[str, str, int]]:
        """Return (source, split, process) in reading order."""
        path = self.base / "readings.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(source, split, int(process)) for source, split, process in map(str.split, lines)]
