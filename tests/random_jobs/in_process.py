"""Random jobs in this process: storages that vanish, stops, restores, and a drain at the end."""

from __future__ import annotations

import functools
import random
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.query.errors import NothingToReadError
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.storage import Storage
from tests.chaos.evidence import Evidence
from tests.random_jobs.build import build
from tests.random_jobs.data import Data
from tests.random_jobs.definition import Definition
from tests.random_jobs.expected import Expected
from tests.random_jobs.invariants import check_any_time, check_calls, check_end, finished_sources
from tests.random_jobs.losing import lose_results
from tests.random_jobs.progress import all_read
from tests.random_jobs.refusals import known
from tests.random_jobs.schedule import RunPlan, Schedule
from tests.spark.faults import Fault, FaultySink, FaultyStorage
from tests.spark.harness import Line, World

PATIENCE = 180.0
"""Seconds after which a run counts as hanging and is ended; a run takes some ten."""
MANY = 60
"""Status lines after which a run is stopped if its fault does not happen."""
LEFT = "the next start tries again"
"""Message of a run that has ended but could not delete everything."""
TALKING = frozenset({"started", "resumed", "running", "checkpoint", "released", "source_ended", "source_dropped"})


@dataclass
class Story:
    """The story of a job, in text, for the reader of a finding. ``refused``: name of the error that refused the job."""

    notes: list[str] = field(default_factory=list)
    refused: str | None = None

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"  {text}")


class InProcess:
    """One random job: its data, its runs, its end. Raises AssertionError for a finding."""

    options: Mapping[str, Any] = {}
    """Options of every run, in addition to the drawn ones."""

    def __init__(self, spark: SparkSession, definition: Definition, schedule: Schedule, base: Path) -> None:
        self.spark, self.definition, self.schedule = spark, definition, schedule
        self.world = World(base, definition.job_id)
        self.data = Data(base, definition)
        self.evidence = Evidence(self.world)
        self.story = Story()
        self._rng = random.Random(definition.seed)
        self._deleted: set[str] = set()
        self._asked: list[str] = []
        self._told_left = False
        self.lost: list[str] = []
        """Result files lost between the last two runs."""

    def run(self) -> Story:
        self._refuse_without_history()
        for plan in () if self.story.refused else self.schedule.runs:
            status = self._attempt(plan)
            if self.story.refused or status == "FINISHED":
                break
            self._between()
        if self.story.refused:
            assert not self.world.root.exists(), f"refused, and written: {self.world.everything_under_root()[:5]}"
            return self.story
        if self._told_left:
            self._start_again()
        expected = Expected(self.spark, self.definition, self.world.base)
        check_end(self.definition, self.world, expected, self.evidence)
        return self.story

    def _start_again(self) -> None:
        """Start the finished job again, as a user does if its run reported files that the next start deletes."""
        self.story.note("started again, for what was left")
        status = self._attempt(RunPlan("finish"))
        assert status == "FINISHED", f"the start after the end: {status}"

    # ---- before the first run

    def _refuse_without_history(self) -> None:
        """Start the job while folders of its history are empty or missing. It must be refused, for another try."""
        absent = {source.uid: source.at_first for source in self.definition.sources if source.at_first != "full"}
        if not absent:
            return
        for uid, how in absent.items():
            self.data.take_away(uid, leaves_folder=how == "empty")
        try:
            stop = self.world.ask("stop", lambda: True)  # of a job that should not have started
            run = self.world.run(build(self.definition, self.world.base), stop, mode=self.definition.mode)
        except NothingToReadError as error:
            self._refused_for_now(error, absent)
        except InvalidInputError as error:
            self._refused(error, fresh=True)
        else:
            raise AssertionError(f"a job without the files of {absent} ended {run.status}")
        assert not self.world.root.exists(), f"refused, and written: {self.world.everything_under_root()[:5]}"
        for uid in absent:
            self.data.bring_back(uid)

    def _refused_for_now(self, error: CkptError, absent: Mapping[str, str]) -> None:
        assert error.data["uid"] in absent, f"refused for another source than {absent}: {error}"
        assert ExitCode.of_error(error) is ExitCode.FAILED, f"no retry would follow: {error}"
        self.story.note(f"refused for now: {error}")

    # ---- one run

    def _attempt(self, plan: RunPlan) -> str:
        fault = self._fault(plan)
        called: list[str] = []
        job = build(self.definition, self.world.base, functools.partial(FaultySink, fault=fault), called.append)
        state = self.world.state() if self.world.root.exists() else None
        over = finished_sources(state) if state is not None else set[str]()
        goes_back = plan.restore and state is not None and state.status != "FINISHED"
        restore = f"chk-{state.last_completed}" if goes_back and state and state.last_completed else "latest"
        if restore != "latest":
            self.evidence.rewound()
        hung = threading.Event()
        watchdog = threading.Timer(PATIENCE, self._give_up, (fault, hung))
        watchdog.start()
        try:
            status = self._run(plan, job, fault, restore)
        finally:
            watchdog.cancel()
        assert not hung.is_set(), f"a run hung ({plan})"
        if restore == "latest" and not self.lost and not self._restarted_from_scratch(state, status):
            check_calls(over, called)
        return status

    def _restarted_from_scratch(self, before: JobState | None, status: str) -> bool:
        """Return whether the job restarted from scratch, or would have done so.

        This happens if it was changed before a checkpoint covered its ends.
        """
        if before is None or status != "REFUSED":
            return before is not None and self.world.state().from_scratch_epoch > before.epoch
        return nothing_is_covered(before)

    def _fault(self, plan: RunPlan) -> Fault:
        return Fault(plan.at if plan.end == "fault" else None, plan.when, plan.once)

    def _run(self, plan: RunPlan, job: Job, fault: Fault, restore: str) -> str:
        fresh = not self.world.root.exists()
        hear = self._hear(plan, fault)
        try:
            run = self.world.run(
                job,
                hear,
                FaultyStorage(self._storage(), fault),
                restore=restore,
                mode=self.definition.mode,
                checkpoint_interval=self.definition.interval,
                retained_checkpoints=self.definition.retained,
                max_bytes_per_trigger=self.definition.limit,
                **self.options,
            )
        except InvalidInputError as error:
            return self._refused(error, fresh)
        except TransientError as error:
            return self._gone(error, plan, fault)
        self._told_left = any(LEFT in line["message"] for line in run.of("warning"))
        self.story.note(f"{plan}: {run.status} {run.cause or ''} at verb {fault.verbs.count}")
        self._check_status(plan, run.status, run.cause, fault)
        return run.status

    def _storage(self) -> Storage:
        """Return the root's storage, without faults."""
        return self.world.storage

    def _refused(self, error: InvalidInputError, fresh: bool) -> str:
        message = f"{type(error).__name__}: {error}"
        assert fresh, f"refused in mid-life: {message}"
        assert known(error), f"refused with an unknown reason: {message}"
        self.story.refused = type(error).__name__
        self.story.note(f"refused: {message}")
        return "REFUSED"

    def _gone(self, error: TransientError, plan: RunPlan, fault: Fault) -> str:
        assert fault.happened, f"failed without a fault: {type(error).__name__}: {error}"
        self.story.note(f"{plan.end} {plan.at}: {type(error).__name__}")
        return "GONE"

    def _check_status(self, plan: RunPlan, status: str, cause: str | None, fault: Fault) -> None:
        """Check that the run's end fits its plan and the journal."""
        allowed = {"FINISHED"}
        if "stop" in self._asked:
            allowed.add("STOPPED")
        if plan.end == "fault" and fault.happened:
            allowed.add("RESTARTING")
        state = self.world.state()
        assert status in allowed, f"a run ended {status} ({cause}), of {plan}"
        if status == "STOPPED":
            assert state.last_released == state.last_completed, "STOPPED with a savepoint that is not released"
        if status == "FINISHED" and self.definition.live:
            assert state.draining, "FINISHED with a live source, and nobody asked for a drain"

    def _may_stop(self, plan: RunPlan, lines: int) -> bool:
        return lines >= plan.at if plan.end == "stop" else plan.end == "fault" and lines > MANY

    def _may_drain(self, plan: RunPlan, fault: Fault) -> bool:
        """Return whether to drain. A run that survived its fault must end, too."""
        return bool(self.definition.live) and not self.data.left() and (plan.drains or fault.happened)

    def _hear(self, plan: RunPlan, fault: Fault) -> Callable[[Line], None]:
        lines = 0
        asked = self._asked = []

        def hear(line: Line) -> None:
            nonlocal lines
            if line["kind"] not in TALKING or asked:
                return
            lines += 1
            left = self.data.left()
            if left and (self._rng.random() < self.schedule.feeding or lines > 10):
                self.data.feed(self._rng.choice(left))
            if self._may_stop(plan, lines) and line["kind"] != "started":
                asked.append("stop")
            elif self._may_drain(plan, fault) and line["kind"] == "checkpoint" and all_read(self.world, self.data):
                asked.append("drain")
            if asked:
                self._request(asked[0])

        return hear

    def _request(self, kind: str) -> None:
        try:
            self.world.request(kind)
        except StorageTransientError:  # the marker of a hang: the root is gone for good
            self.story.note(f"{kind} could not be asked for")

    def _give_up(self, fault: Fault, hung: threading.Event) -> None:
        hung.set()
        fault.at, fault.once = 0, False

    # ---- between runs

    def _between(self) -> None:
        for query in self.spark.streams.active:
            query.stop()
        if not self.world.root.exists():
            return
        check_any_time(self.definition, self.world)
        self.evidence.gather()
        self.lost = lose_results(self.world, self._rng) if self.schedule.loses else []
        if self.lost:
            self.evidence.rewound()
            self.story.note(f"lost {len(self.lost)} files of results")
        if self.schedule.deletes:
            for uid in finished_sources(self.world.state()) - self._deleted:
                shutil.rmtree(self.world.base / "in" / uid, ignore_errors=True)
                self._deleted.add(uid)
                self.story.note(f"deleted the folder of {uid}")
