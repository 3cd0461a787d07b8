"""An aging Spark job: several runs in sequence, a checkpoint every 50 ms, and a census at intervals."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.job import Job
from tests.soak.census import Census, take
from tests.spark.harness import Line, World

INTERVAL = 0.05
"""Seconds between two checkpoints."""
EACH = 50
"""Checkpoints between two counts of the files."""
PAGE = Path("/proc/self/statm")


@dataclass
class SparkSoak:
    """An aging Spark job. ``feed``: called after each checkpoint with the number of checkpoints so far."""

    world: World
    job: Callable[[], Job]
    feed: Callable[[int], None] = lambda checkpoints: None
    runs: list[Census] = field(default_factory=list)
    """A census for each run, taken at its end."""
    _asked: bool = False

    def live(self, checkpoints: int, runs: int) -> list[Census]:
        """Run the job until it has so many checkpoints, spread evenly over ``runs``."""
        for number in range(1, runs + 1):
            self._run(number * checkpoints // runs)
        return self.runs

    def _run(self, until: int) -> None:
        begun, restarted, most = time.monotonic(), [0.0], [0]
        self._asked = False

        def hear(line: Line) -> None:
            if line["kind"] == "running":
                restarted[0] = time.monotonic() - begun
            if line["kind"] != "checkpoint":
                return
            self.feed(line["checkpoint"])
            if line["checkpoint"] % EACH == 0:
                most[0] = max(most[0], take(self.world.root, 0).count)
            if line["checkpoint"] >= until and not self._asked:
                self._asked = True
                self.world.request("stop")

        ended = self.world.run(self.job(), hear, checkpoint_interval=INTERVAL, min_pause=0.0, retained_checkpoints=3)
        assert ended.status == "STOPPED", ended.cause
        shown = time.monotonic()
        state = JobClient(self.world.storage, self.world.job_id).state()
        shown = time.monotonic() - shown
        times = [checkpoint.at - checkpoint.triggered_at for checkpoint in state.checkpoints.values()]
        figures = {
            "files, at most": most[0],
            "restart, s": restarted[0],
            "show, ms": shown * 1e3,
            "checkpoint, ms": statistics.median(times) * 1e3,
            "memory of the driver, MB": resident() / 1e6,
        }
        self.runs.append(take(self.world.root, state.completed_count, figures))


def resident() -> int:
    """Return the resident bytes of this process, without the JVM."""
    return int(PAGE.read_text().split()[1]) * resource.getpagesize()
