"""The world of one chaos test: a job, its folders and its drivers."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import DrainRequest
from airflow_provider_ckpt.storage.opening import open_storage
from tests.chaos.data import Input
from tests.support.processes import Process
from tests.support.waiting import wait_until

JOBS = Path(__file__).parent / "jobs"
SMALL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class Variant:
    """A kind of chaos job.

    ``job``: file in ``jobs/``. ``sinks``: sinks that hold every row; a sink's uid is its folder's name. ``live``: the
    folder of live files.
    """

    name: str
    job: str
    sinks: tuple[str, ...]
    chain: bool = True
    counts: bool = False
    last_vertex: str = "doubled"
    live: str = "live"
    env: Mapping[str, str] = field(default_factory=dict)


class Driver(Process):
    """A driver of the job, and the status lines it has printed."""

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        whole = self.text().rpartition("\n")[0]  # a killed driver may have written half of its last line
        lines = [json.loads(line[5:]) for line in whole.splitlines() if line.startswith("CKPT {")]
        return [line for line in lines if not kinds or line["kind"] in kinds]

    def wait_for(self, *kinds: str, count: int = 1, seconds: float = 180.0) -> dict[str, Any]:
        """Return the ``count``-th status line of these kinds. Fail at once if the driver ends before it."""

        def poll() -> dict[str, Any] | None:
            ended = self.exit_code
            lines = self.lines(*kinds)
            if len(lines) >= count:
                return lines[count - 1]
            if ended is not None:
                raise AssertionError(f"{self} ended with {ended} before {kinds}\n{self.tail()}")
            return None

        line = wait_until(poll, lambda: f"{count} × {kinds} of {self}\n{self.tail()}", seconds=seconds)
        assert line is not None
        return line

    def kill(self, target: str) -> None:
        """Send SIGKILL to the "python" driver, its "jvm", or "all" processes it started."""
        pids = {"python": [self.pid], "jvm": self.jvms(), "all": self.session()}[target]
        self.signal(signal.SIGKILL, pids)


class World:
    """A job under ``base``, an empty folder. Leaving the context kills every driver that was started in it."""

    def __init__(self, base: Path, variant: Variant, *, history_files: int = 12, **options: Any) -> None:
        self.base, self.variant = base, variant
        self.job_id = variant.name
        self.data = Input(base, history_files, variant.live)
        self.root = base / "ckpt"
        self.drivers: list[Driver] = []
        self._options = {"checkpoint_interval": 0.5, **options}
        self.storage = open_storage(str(self.root))

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self.drivers:
            driver.end()

    @property
    def env(self) -> dict[str, str]:
        return {
            "CKPT_CHAOS_BASE": str(self.base),
            "CKPT_CHAOS_CHAIN": "1" if self.variant.chain else "0",
            "CKPT_CHAOS_LIVE": self.variant.live,
            **self.variant.env,
        }

    def options(self, **more: Any) -> str:
        return json.dumps(
            {
                "job": f"{JOBS / self.variant.job}:job",
                "root": str(self.root),
                "job_id": self.job_id,
                "conf": SMALL,
                **self._options,
                **more,
            }
        )

    def command(self, **more: Any) -> list[str]:
        return [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", self.options(**more)]

    def start(self, command: list[str] | None = None, *, env: Mapping[str, str] | None = None, **more: Any) -> Driver:
        log = self.base / f"driver-{len(self.drivers)}.log"
        environ = {**self.env, **(env or {})}
        driver = Driver(self.command(**more) if command is None else command, log, env=environ)
        self.drivers.append(driver)
        return driver

    def state(self) -> JobState:
        """Return the job's state by a replay of the journal."""
        return Journal(self.storage, self.job_id).replay()

    def has_left_history(self) -> bool:
        """Return True if the live query no longer reads a finished source, and later checkpoints are released."""
        if not (self.root / self.job_id / "journal").exists():
            return False
        state = self.state()
        return bool(state.dropped) and state.last_released > 2

    def drain(self) -> None:
        write_request(self.storage, self.job_id, DrainRequest(epoch=self.state().epoch))
