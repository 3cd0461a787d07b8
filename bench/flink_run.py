"""One run of the race in Flink: its processes, its REST API and its log."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import data, flink_jars, race_lap
from bench.measure import CpuMeter
from bench.process_tree import end_group, tree_seconds
from bench.race_lap import Lap, Times
from bench.race_plan import RacePlan

SUBMITTER = Path(__file__).with_name("flink_race.py")
LOGGING = """
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{UNIX_MILLIS}} %c{{1}} %m%n
"""
LONGEST_RUN = 900.0
"""Seconds after which a run counts as hanging and is ended."""


class FlinkRun:
    """A run of the race in Flink. ``python``: a Python with apache-flink."""

    def __init__(self, python: str, plan: RacePlan) -> None:
        self._work = Path(plan.work)
        self._log, self._output = self._work / "flink.log", self._work / "stderr"
        logging = self._work / "log4j2.properties"
        logging.write_text(LOGGING.format(file=self._log))
        with socket.socket() as free:
            free.bind(("localhost", 0))
            self._port = free.getsockname()[1]
        more = {"LOG4J_PROPERTIES": str(logging), "FLINK_LOG_DIR": str(self._work), "FLINK_IDENT_STRING": "race"}
        more["JVM_ARGS"] = "-Xms2g -Xmx4g"  # the same as for Spark's driver
        more["HADOOP_CLASSPATH"] = flink_jars.classpath(python) if plan.reads == "parquet" else ""
        given = {**asdict(plan), "live": plan.live, "out": plan.out}
        with open(self._output, "wb") as output:
            self.process = subprocess.Popen(
                [python, str(SUBMITTER), json.dumps(given), str(self._port)],
                env={**os.environ, **more},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_committed(self) -> Mapping[str, Any]:
        """Wait until the source of history has finished, and a checkpoint that began later has completed.

        Return the answer of the REST API for the vertex of that source.
        """
        deadline = time.monotonic() + LONGEST_RUN
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"Flink ended:\n{self._output.read_text()[-3000:]}")
            found = self._history()
            if found and found["status"] == "FINISHED":
                ended = found["end-time"] / 1000
                if any(done["trigger_timestamp"] / 1000 > ended for done in self.checkpoints()):
                    return found
            time.sleep(0.2)
        raise SystemExit(f"Flink hangs:\n{self._output.read_text()[-3000:]}")

    def _history(self) -> Mapping[str, Any] | None:
        for job in self._ask("/jobs").get("jobs", []):
            if job["status"] == "FAILED":
                raise SystemExit(f"the job failed:\n{self._ask('/jobs/' + job['id'] + '/exceptions')}"[:3000])
            vertices = self._ask(f"/jobs/{job['id']}").get("vertices", [])
            return next((one for one in vertices if "Source: history" in one["name"]), None)
        return None

    def checkpoints(self) -> list[Mapping[str, Any]]:
        """Return the completed checkpoints, the oldest first."""
        job = self._ask("/jobs")["jobs"][0]["id"]
        found = self._ask(f"/jobs/{job}/checkpoints").get("history", [])
        return [one for one in reversed(found) if one["status"] == "COMPLETED"]

    def _ask(self, path: str) -> Any:
        """Return an answer of the REST API; empty if there is none."""
        try:
            with urllib.request.urlopen(f"http://localhost:{self._port}{path}", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return {}

    def splits(self, history: str) -> tuple[float, float]:
        """Return when a reader got the first file of history, and when the last reader had read all of its files."""
        given = [at for at, text in self._lines() if "Adding split" in text and history in text]
        over = [at for at, text in self._lines() if "NoMoreSplits" in text and text.startswith("SourceReaderBase")]
        return min(given), max(over)

    def _lines(self) -> Iterator[tuple[float, str]]:
        for line in self._log.read_text(errors="replace").splitlines():
            if told := re.match(r"(\d{13}) (.*)", line):
                yield int(told[1]) / 1000, told[2]


def run_flink(python: str, plan: RacePlan, history: data.History) -> Lap:
    launched = time.time()
    run = FlinkRun(python, plan)
    with CpuMeter(lambda: tree_seconds(run.process.pid)) as meter:
        try:
            source = run.wait_until_committed()
            checkpoints = run.checkpoints()
        finally:
            end_group(run.process)
    planned, read = run.splits(history.folder)
    first: float | None = None
    live: tuple[float, ...] = ()
    if plan.variant == "A":
        found = race_lap.parts(Path(plan.out).glob("part-*"), plan)
        race_lap.check(found, plan, history)
        first, visible = found[0].at, race_lap.last_of_history(found)
        live = race_lap.seen(found, Path(plan.live), visible)
    else:
        if (kept := source["metrics"]["write-records"]) != history.kept:
            raise SystemExit(f"{plan}: {kept} rows of history were passed on, not {history.kept}")
        visible = min(_completed(one) for one in checkpoints if one["trigger_timestamp"] / 1000 >= read)
    took = (one["end_to_end_duration"] for one in checkpoints if planned <= one["trigger_timestamp"] / 1000 < read)
    return Times(launched, planned, read, visible).lap(history.rows, meter, first, live, took)


def _completed(checkpoint: Mapping[str, Any]) -> float:
    return float(checkpoint["trigger_timestamp"] + checkpoint["end_to_end_duration"]) / 1000
