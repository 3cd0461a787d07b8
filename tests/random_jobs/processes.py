"""Random jobs in real drivers that are killed, stopped, paused and taken over."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import REQUESTS
from airflow_provider_ckpt.status.exit_code import ExitCode
from tests.chaos.evidence import Evidence
from tests.chaos.schedule import PATIENCE, counter, glance
from tests.chaos.world import SMALL, Driver
from tests.chaos.world import World as ChaosWorld
from tests.random_jobs.data import Data
from tests.random_jobs.definition import Definition
from tests.random_jobs.expected import Expected
from tests.random_jobs.in_process import LEFT
from tests.random_jobs.invariants import check_any_time, check_calls, check_end, finished_sources
from tests.random_jobs.process_schedule import Step
from tests.random_jobs.progress import all_read
from tests.random_jobs.refusals import known_message
from tests.spark.harness import World

FINISHED, FAILED, REFUSED, FENCED = ExitCode.FINISHED, ExitCode.FAILED, ExitCode.REFUSED, ExitCode.FENCED
HERE = Path(__file__).parent
ELSEWHERE = HERE.parent / "chaos" / "elsewhere.py"
LONGEST = 240.0
"""Seconds after which a driver counts as hanging."""


@dataclass(frozen=True)
class _Sinks:
    sinks: tuple[str, ...]


@dataclass
class Folder(World):
    """A folder with the layout of the chaos tests."""

    variant: _Sinks = field(default_factory=lambda: _Sinks(()))

    @property
    def root(self) -> Path:
        return self.base / "ckpt"


class Processes:
    """One random job. Raises AssertionError for a finding. Leaving the context ends every driver."""

    def __init__(self, definition: Definition, schedule: tuple[Step, ...], base: Path) -> None:
        self.definition, self.schedule = definition, schedule
        self.world = Folder(base, variant=_Sinks(tuple(sink.uid for sink in definition.sinks)))
        self.data = Data(base, definition)
        (base / "definition.json").write_text(definition.to_json())
        self.evidence = Evidence(self.world)
        self.drivers: list[Driver] = []
        self.deeds = 0
        self._rng = random.Random(definition.seed)
        self._over: dict[int, set[str]] = {}
        self._lines = 0
        self._woken = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self.drivers:
            driver.end()

    def run(self, spark: SparkSession) -> bool:
        """Run the job. Return False if the definition was refused."""
        driver: Driver | None = None
        restore = False
        for step in self.schedule:
            driver = driver or self._start(restore, elsewhere=step.deed == "pause")
            before = glance(step.kill, cast(ChaosWorld, self.world))
            seen = counter(step.kill, cast(ChaosWorld, self.world), driver, before)
            if not self._until(driver, lambda: seen() >= step.kill.count, PATIENCE):  # noqa: B023
                if not self._ended(driver):
                    return False
                if self.world.state().status == "FINISHED":
                    break
                driver = None
                continue
            driver = self._DEEDS[step.deed](self, step, driver)
            restore = step.restore and driver is None
            self._look()
        self._finish(spark, driver or self._start(restore))
        return True

    # ---- deeds on a driver; each returns the driver that lives afterwards

    def _kill(self, step: Step, driver: Driver) -> Driver | None:
        if not driver.ended_within(step.kill.delay):
            driver.kill(step.kill.target)
        code = driver.wait(120)
        allowed = (FAILED, FINISHED) if step.kill.target == "jvm" else (-signal.SIGKILL, FINISHED)
        assert code in allowed, f"after {step}: exit code {code}\n{driver.tail()}"
        driver.end()
        self.deeds += 1
        return None

    def _stop(self, step: Step, driver: Driver) -> Driver | None:
        if not self._until(driver, lambda: _runs(driver), LONGEST):
            return None
        self._request("stop")
        code = driver.wait(LONGEST)
        state = self.world.state()
        assert code == FINISHED, f"a stop ended with {code}: {state.status}\n{driver.tail()}"
        assert state.status in ("STOPPED", "FINISHED"), state.status
        assert state.last_released == state.last_completed, "exit 0, and the savepoint is not released"
        self.deeds += 1
        return None

    def _take_over(self, step: Step, driver: Driver) -> Driver | None:
        second = self._start(False)
        code = driver.wait(LONGEST)
        assert code in (FENCED, -signal.SIGKILL, FINISHED, FAILED), f"taken over: exit code {code}\n{driver.tail()}"
        if code == FAILED:
            assert "fenced" in driver.text() or self.world.state().epoch >= len(self.drivers), driver.tail()
        self.deeds += 1
        return second

    def _pause(self, step: Step, driver: Driver) -> Driver | None:
        """Pause the driver on another host, where only the fence stops it."""
        paused = driver.session()
        driver.signal(signal.SIGSTOP, paused)
        # on a host of its own, too, so that its successor cannot reach it during a second pause
        second = self._start(False, elsewhere=True)
        done = self.world.state().last_completed
        self._until(second, lambda: self.world.state().last_completed > done, LONGEST)
        driver.signal(signal.SIGCONT, paused)
        code = driver.wait(LONGEST)
        assert code in (FENCED, FAILED, FINISHED), f"woken on the other host: exit code {code}\n{driver.tail()}"
        self._woken = True
        self.deeds += 1
        return second

    _DEEDS: dict[str, Callable[[Processes, Step, Driver], Driver | None]] = {
        "kill": _kill,
        "stop": _stop,
        "take over": _take_over,
        "pause": _pause,
    }

    # ---- drivers

    def _start(self, restore: bool, elsewhere: bool = False) -> Driver:
        number = len(self.drivers)
        state = self.world.state() if self.world.root.exists() else None
        back = f"chk-{state.last_completed}" if restore and state and state.last_completed else "latest"
        if state is not None and back == "latest":
            self._over[number] = finished_sources(state)
        elif back != "latest":
            self.evidence.rewound()
        options: dict[str, Any] = {
            "job": f"{HERE / 'job_file.py'}:job",
            "root": str(self.world.root),
            "job_id": self.world.job_id,
            "conf": SMALL,
            "mode": self.definition.mode,
            "checkpoint_interval": self.definition.interval,
            "checkpoint_timeout": 60,
            "retained_checkpoints": self.definition.retained,
            "max_bytes_per_trigger": self.definition.limit,
            "restore": back,
        }
        begin = [str(ELSEWHERE), f"elsewhere-{number}"] if elsewhere else ["-m", "airflow_provider_ckpt.spark.main"]
        env = {"CKPT_RANDOM_BASE": str(self.world.base), "CKPT_RANDOM_RUN": str(number)}
        command = [sys.executable, *begin, "--options", json.dumps(options)]
        driver = Driver(command, self.world.base / f"driver-{number}.log", env=env)
        self.drivers.append(driver)
        self._lines = 0
        return driver

    def _until(self, driver: Driver, look: Callable[[], bool], seconds: float) -> bool:
        """Feed the job until ``look`` succeeds or the time is over. Return False if the driver ended before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended = driver.exit_code is not None
            if look():
                return True
            if ended:
                return False
            self._feed(driver)
            driver.ended_within(0.01)
        return True

    def _feed(self, driver: Driver) -> None:
        """Give the job a live file after some status lines."""
        lines, left = len(driver.lines()), self.data.left()
        if lines > self._lines:
            self._lines = lines
            if left and self._rng.random() < 0.6:
                self.data.feed(self._rng.choice(left))

    def _ended(self, driver: Driver) -> bool:
        """Check a driver that ended before its step. Return False if it was refused."""
        code = driver.wait()
        if code == REFUSED:
            message = driver.lines("refused")[-1]["message"]
            assert len(self.drivers) == 1, f"refused in mid-life: {message}"
            assert known_message(message), f"refused with an unknown reason: {message}"
            assert not self.world.root.exists(), "refused, and written"
            return False
        assert code == FINISHED, f"{driver} ended by itself with {code}\n{driver.tail()}"
        return True

    def _request(self, kind: str) -> None:
        write_request(self.world.storage, self.world.job_id, REQUESTS[kind](epoch=self.world.state().epoch))

    # ---- ends

    def _look(self) -> None:
        if self.world.root.exists():
            check_any_time(self.definition, self.world)
            self.evidence.gather()

    def _finish(self, spark: SparkSession, driver: Driver) -> None:
        def fed_and_read() -> bool:
            return _runs(driver) and not self.data.left() and all_read(self.world, self.data)

        if self.definition.live and driver.exit_code is None:
            running = self._until(driver, fed_and_read, LONGEST)
            if running and driver.exit_code is None:
                assert fed_and_read(), f"not all was read within {LONGEST:.0f} s\n{driver.tail()}"
                self._request("drain")
        code = driver.wait(LONGEST)
        if code == REFUSED and len(self.drivers) == 1:
            self._ended(driver)
            return
        assert code == FINISHED, f"{driver} ended with {code}\n{driver.tail()}"
        if self.world.state().status == "STOPPED":  # by the stop request of a driver that was taken over
            self._finish(spark, self._start(False))
            return
        if self._woken or any(LEFT in line["message"] for line in driver.lines("warning")):
            # a driver that woke up may have written files after the clean-up, or the clean-up failed. The next start
            # collects them
            assert self._start(False).wait(LONGEST) == FINISHED
        check_end(self.definition, self.world, Expected(spark, self.definition, self.world.base), self.evidence)
        for number, over in self._over.items():
            calls = self.world.base / f"calls-{number}"
            check_calls(over, calls.read_text().split() if calls.exists() else ())


def _runs(driver: Driver) -> bool:
    """Return whether the driver runs.

    A request is for one epoch, so before the claim it would be for the previous one.
    """
    return bool(driver.lines("running"))
