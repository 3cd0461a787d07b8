"""The story of the demo: a Dag run on local Spark, and outside events: deliveries, a kill, a drain."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests
from dags_examples.demo_support import compare, data
from dags_examples.demo_support.airflow_home import EXAMPLES, environment
from dags_examples.demo_support.evidence import HISTORY, VERTEX, Evidence, Kill
from dags_examples.demo_support.processes import Child, kill
from dags_examples.demo_support.watch import DemoFailedError, JobFollower

JOB_ID, FLIGHTS, DELAYS = "flights_2013", "flights_table", "delays_table"

Say = Callable[[str], None]


class Story:
    """One run in ``workdir``. It delivers December, kills the driver and ends the year."""

    def __init__(self, workdir: Path, say: Say) -> None:
        self._workdir, self._say = workdir, say
        self._lake, self._root = workdir / "lake", workdir / "ckpt"
        self._flights_folder = self._lake / "flights"
        self._children: list[Child] = []
        self._raw = data.read_flights()
        history, live = data.split(self._raw)
        data.put_all(self._lake / "raw" / "history", history)
        self._feed = data.LiveFeed(self._lake / "raw" / "live", live)
        self._feed.deliver(1)
        self._say(
            f"history: {self._raw.num_rows - december(self._raw):,} flights (January-November) in {len(history)} files"
        )
        self._say(f"live: {december(self._raw):,} flights of December, day by day")

    def run(self) -> Evidence:
        dag = self._start("flights")
        self._say(f"Airflow runs the Dag flights; its log: {dag.log}")
        follower = JobFollower(self._root, JOB_ID, self._say, lambda: _ended(dag))
        follower.wait("the job to start", lambda s: s.status is JobStatus.RUNNING)
        report = self._start("flights_report")
        self._say("the job is RUNNING, and the Dag flights_report waits for its final checkpoint")
        self._until_history_is_left_out(follower)
        killed = self._kill_in_the_middle(dag, follower)
        self._until_resumed(follower, killed)
        drain = self._drain(follower)
        for child in (dag, report):
            self._wait_for(child)
        return self._evidence(killed, follower.state(), drain, dag, report)

    def end(self) -> None:
        for child in self._children:
            child.end()

    def logs(self) -> list[Path]:
        return [child.log for child in self._children]

    # ---- the story

    def _until_history_is_left_out(self, follower: JobFollower) -> None:
        follower.wait(
            "history to end and to be left out",
            lambda s: HISTORY in s.dropped.get(VERTEX, {}),
            each_checkpoint=lambda: self._deliver(1) if self._feed.days < 10 else None,
        )
        self._say("history is finished, and left out of the running query")
        self._deliver(2)
        follower.wait(
            "a checkpoint with live flights only",
            lambda s: self._released() >= self._delivered(),
        )

    def _kill_in_the_middle(self, dag: Child, follower: JobFollower) -> Kill:
        self._deliver(5)
        staging = self._flights_folder.with_name(f"_ckpt-{self._flights_folder.name}") / JOB_ID / FLIGHTS / "staging"
        before = follower.wait(
            "a micro-batch to be written", lambda s: staging.is_dir() and any(staging.iterdir()), poll=0.02
        )
        assert before.worker.pid is not None
        victims = dag.submission(before.worker.pid)
        names = {process.pid: process.name() for process in victims}
        kill(victims)
        self._say(f"kill -9 of the driver while it writes (pid {before.worker.pid}, and its JVM)")
        state = follower.state()
        survivors = tuple(process.pid for process in dag.members() if process.pid in names)
        released = compare.months_by_checkpoint(self._flights_folder, self._manifests()).values()
        live = sum(months.get(data.LIVE_MONTH, 0) for months in released)
        killed = Kill(state, names, survivors, self._feed.rows, live)
        self._deliver(5)
        return killed

    def _until_resumed(self, follower: JobFollower, killed: Kill) -> None:
        follower.wait("Airflow's retry", lambda s: s.epoch > killed.state.epoch and s.status is JobStatus.RUNNING)
        self._say(f"Airflow's retry runs the job (it was at checkpoint {killed.state.last_completed})")
        follower.wait(
            "the rest of December",
            lambda s: not self._feed.waiting and self._released() >= self._delivered(),
            each_checkpoint=lambda: self._deliver(3),
        )

    def _drain(self, follower: JobFollower) -> str:
        from airflow_provider_ckpt import CheckpointHook

        request = CheckpointHook().drain(JOB_ID)
        self._say("December is released; asked the job to drain (CheckpointHook.drain)")
        follower.wait("the drained job to finish", lambda s: s.status is JobStatus.FINISHED)
        return request

    # ---- its means

    def environment(self, name: str) -> dict[str, str]:
        home = self._workdir / f"airflow-{name}"  # one for each: SQLite takes one writer
        return environment(os.environ, home=home, root=self._root, lake=self._lake)

    def _start(self, dag_id: str) -> Child:
        arguments = ["-m", "dags_examples.demo_support.run_dag", dag_id, str(self._outcome(dag_id))]
        child = Child(arguments, self.environment(dag_id), EXAMPLES.parent, self._workdir / f"{dag_id}.log")
        self._children.append(child)
        return child

    def _outcome(self, dag_id: str) -> Path:
        return self._workdir / f"{dag_id}.json"

    def _deliver(self, days: int) -> None:
        if self._feed.waiting:
            self._feed.deliver(days)
            self._say(f"  live feed: {self._feed.days} days of December are there ({self._feed.rows:,} flights)")

    def _delivered(self) -> int:
        return int(self._raw.num_rows) - december(self._raw) + self._feed.rows

    def _released(self) -> int:
        return sum(manifest.rows for manifest in self._manifests())

    def _manifests(self) -> list[Manifest]:
        return read_manifests(str(self._flights_folder), JOB_ID, FLIGHTS)

    def _wait_for(self, child: Child, at_most: float = 300.0) -> None:
        deadline = time.monotonic() + at_most
        while child.exit_code() is None:
            if time.monotonic() > deadline:
                raise DemoFailedError(f"the job is FINISHED, but its Dag run is not; see {child.log}")
            time.sleep(0.1)

    def _evidence(self, killed: Kill, ended: JobState, drain: str, dag: Child, report: Child) -> Evidence:
        self._say("comparing the released rows with the input")
        manifests = self._manifests()
        files = [file.path for manifest in manifests for file in manifest.files]
        expected, actual = compare.expected_flights(self._raw), compare.released_flights(self._flights_folder, files)
        delays_folder = self._lake / "daily_delays"
        delay_files = [f.path for m in read_manifests(str(delays_folder), JOB_ID, DELAYS) for f in m.files]
        delays = compare.rows_of(compare.newest_delays(delays_folder, delay_files))
        return Evidence(
            kill=killed,
            ended=ended,
            drain=drain,
            months=compare.months_by_checkpoint(self._flights_folder, manifests),
            airflow=_read_json(self._outcome("flights")),
            log=dag.log.read_text(errors="replace"),
            report=_read_json(self._outcome("flights_report")),
            report_log=report.log.read_text(errors="replace"),
            expected_months=compare.by_month(expected),
            actual_months=compare.by_month(actual),
            flights=compare.difference(compare.rows_of(expected), compare.rows_of(actual)),
            delays=compare.difference(compare.rows_of(compare.expected_delays(expected)), delays),
            unlisted=tuple(sorted(compare.data_files(self._flights_folder) ^ set(files))),
            left_over=tuple(str(process) for child in self._children for process in child.members()),
        )


def december(flights: pa.Table) -> int:
    return compare.by_month(flights).get(data.LIVE_MONTH, 0)


def _ended(dag: Child) -> str | None:
    code = dag.exit_code()
    return None if code is None else f"the Dag run has ended (exit code {code})"


def _read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found
