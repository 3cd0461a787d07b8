"""Random jobs with splits in this process: storages that vanish, failing splits, rescales, stops, restores."""

from __future__ import annotations

import functools
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import RequestFailure, RequestRefusedError, RequestUnansweredError, TransientError
from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from airflow_provider_ckpt.journal.kinds.splits import covered_splits
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.split import numbers
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.chaos.evidence import Evidence, journal_events
from tests.random_jobs.failing_verbs import FailingVerbs, Failures
from tests.random_jobs.in_process import LEFT, TALKING, Story
from tests.random_jobs.invariants import LEFT_YET, STAYS, check_folder
from tests.random_jobs.losing import lose_results
from tests.random_jobs.split_jobs import LIVE, Kill, Rescale, SplitJob, SplitRun, SplitSchedule, SplitSink
from tests.spark.faults import Fault, FaultySink, FaultyStorage
from tests.spark.harness import Line, World
from tests.spark.jobs import IDS
from tests.support.waiting import wait_until

EACH = 3
"""Rows of one live file."""
APART = 1_000_000
"""Distance between the ids of two sources. The live feed has the first ids."""
STAYS_OF_SUBTASKS = STAYS.replace("(/0(/log", r"(/\d+(/log")
ANSWERED = 60.0
NEVER = 600.0
ENOUGH = 15
"""Status lines after which a run without an end is stopped, except for the last run."""
PATIENCE = 90.0
"""Seconds after which a run counts as hanging and is ended; a run takes two or three."""
_LOG = re.compile(r"/vertices/([^/]+/\d+)/log/")
_NOTE = re.compile(r"/vertices/of_[^/]+/0/prepared/")
_RUNS = ("running", "checkpoint", "released")
REFUSALS = (
    r"the job is being ended",
    r"reconfiguration \d+ \(.*\) is in progress",
    r"all splits of .* are assigned",
    r".* has \d+ splits? left to read, and cannot be read by \d+ subtasks",
)


class Asked:
    """Calls of the splits' functions in one run, and their faults: failures and rescale requests."""

    def __init__(self, job: SplitJob, run: SplitRun, world: World, fault: Fault, story: Story) -> None:
        self._job, self._run, self._world, self._fault, self._story = job, run, world, fault, story
        self._lock = threading.Lock()
        self._free, self._waiting = threading.Event(), 0
        self._free.set()
        self._rescales = list(run.rescales)
        self._of = Counter[str]()
        self._down = set[tuple[str, str]]()
        self._threads: list[threading.Thread] = []
        self.is_on, self.is_over = False, False
        self.count, self.failed = 0, 0
        self.problems: list[str] = []

    def __call__(self, uid: str, split: Mapping[str, Any]) -> None:
        if not self.is_on:  # planning calls the function, too
            return
        with self._lock:
            self.count += 1
            self._of[uid] += 1
            fails = self.count in self._run.fails or (uid, split["id"]) in self._down
            self.failed += fails
            if fails and self._run.stays_down:
                self._down ^= {(uid, split["id"])}
            for rescale in [
                waiting for waiting in self._rescales if waiting.uid == uid and self._of[uid] >= waiting.behind
            ]:
                self._rescales.remove(rescale)
                self._begin(rescale)
        while not (self._free.wait(0.05) or self._is_dead()):
            pass
        if fails:
            raise ConnectionError(f"{uid}: {split['id']} is down")

    def over(self) -> None:
        """End the run: join the threads of requests and check their problems."""
        self.is_over = True
        for thread in self._threads:
            thread.join(ANSWERED)
        assert not self.problems, self.problems

    def _is_dead(self) -> bool:
        return self.is_over or (self._fault.happened and not self._fault.once)

    def _begin(self, rescale: Rescale) -> None:
        if rescale.waits != "no":
            self._waiting += 1
            self._free.clear()
        self._threads.append(threading.Thread(target=self._ask, args=(rescale,), daemon=True))
        self._threads[-1].start()

    def _ask(self, rescale: Rescale) -> None:
        resumes = functools.cache(functools.partial(self._go_on, rescale))
        try:
            self._story.note(f"{rescale.uid} -> {rescale.parallelism}: {self._answer(rescale, resumes)}")
        except Exception as error:
            self.problems.append(f"{rescale}: {type(error).__name__}: {error}")
        finally:
            resumes()

    def _go_on(self, rescale: Rescale) -> None:
        """Let the splits be read on once no rescale waits."""
        with self._lock:
            self._waiting -= rescale.waits != "no"
            if not self._waiting:
                self._free.set()

    def _answer(self, rescale: Rescale, resumes: Callable[[], None]) -> str:
        client = JobClient(str(self._world.root), self._world.job_id)
        wait_until(lambda: self._is_dead() or _may_be_asked(client.read_state()), "a job that runs")
        if self._is_dead():
            return "nobody to ask"
        try:
            asked = client.rescale(rescale.uid, rescale.parallelism)
        except RequestRefusedError as error:
            return f"could not be asked for: {error}"
        try:
            if rescale.waits == "accepted":
                self._wait(lambda: asked.name in client.read_state().outcomes or not client.read_state().is_held)
                resumes()
            if not self._wait(lambda: self._is_answered(client, asked.name)):
                return "the run is over"
            outcome = client.answer(asked, 1).outcome
        except RequestUnansweredError as error:
            if error.reason is not RequestFailure.OVERTAKEN:
                raise
            return "overtaken"
        if outcome is not None and outcome.result.value == "refused":
            assert any(re.fullmatch(pattern, outcome.detail) for pattern in REFUSALS), outcome
        return str(outcome)

    def _wait(self, until: Callable[[], bool]) -> bool:
        wait_until(lambda: self._is_dead() or until(), "an answer", seconds=ANSWERED, every=0.02)
        return until()

    @staticmethod
    def _is_answered(client: JobClient, name: str) -> bool:
        state = client.read_state()
        outcome = state.outcomes.get(name)
        return not state.is_held or (outcome is not None and outcome.is_last)


def _may_be_asked(state: JobState) -> bool:
    """Return whether a request can be made, or the run is over."""
    return state.status == "RUNNING" or not state.is_held


class Killing(WrappedStorage):
    """A storage that is gone after the first change of the graph, or when a new subtask's log is opened.

    ``slow``: seconds for each batch of a query.
    """

    def __init__(self, inner: Storage, kill: Kill | None, slow: float, fault: Fault, seen: set[str]) -> None:
        super().__init__(inner)
        self.kill, self.slow, self.fault, self.seen = kill, slow, fault, seen

    def replace(self, path: str, data: bytes) -> None:
        if _NOTE.search(f"/{path}"):
            time.sleep(self.slow)
        super().replace(path, data)

    def create(self, path: str, data: bytes) -> None:
        match = _LOG.search(f"/{path}")
        if self.kill == "open" and match is not None and match[1] not in self.seen and "changed" in self.seen:
            self._die(path)
        if match is not None:
            self.seen.add(match[1])
        super().create(path, data)
        if b'"Reconfigured"' in data:
            self.seen.add("changed")
            if self.kill == "change":
                self._die(path)

    def _die(self, path: str) -> None:
        self.fault.at, self.fault.once = self.fault.verbs.count, False
        raise StorageTransientError(verb="create", uri=path, reason="killed")

    def _wrap(self, inner: Storage) -> Killing:
        return Killing(inner, self.kill, self.slow, self.fault, self.seen)


class Splitting:
    """One random job with splits: its data, its runs, its end. Raises AssertionError for a finding."""

    def __init__(self, spark: SparkSession, job: SplitJob, schedule: SplitSchedule, base: Path) -> None:
        self.spark, self.job, self.schedule = spark, job, schedule
        self.world = World(base, "splits")
        self.evidence = Evidence(self.world)
        self.failures = Failures(random.Random(job.seed * 31 + 13))
        self.story = Story()
        self._rng = random.Random(job.seed)
        self._fed = 0
        self._requested: list[str] = []
        self._told_left = self._is_anew = False
        self.world.path(LIVE)
        for _ in range(min(job.at_start, job.files)):
            self._feed()

    def run(self) -> Story:
        for run in self.schedule.runs:
            status = self._attempt(run)
            if status == "FINISHED":
                break
            self._between()
            self._discard_first_run(run)
        if self._told_left:
            self.story.note("started again, for what was left")
            status = self._attempt(SplitRun(self.schedule.runs[-1].parallelism))
        assert status == "FINISHED", status
        self._check_end()
        return self.story

    def _discard_first_run(self, run: SplitRun) -> None:
        """Discard the evidence of the first run, if no checkpoint covers it."""
        if not self.schedule.anew or run is not self.schedule.runs[0] or not self.world.root.exists():
            return
        if nothing_is_covered(self.world.state()):
            self._is_anew = True
            self.evidence.rewound()
            self.story.note("restarts from scratch")

    # ---- the job

    def _feed(self) -> None:
        self.world.put_ids(LIVE, 1, EACH, start=self._fed * EACH)
        self._fed += 1

    def _splits(self, number: int) -> list[dict[str, Any]]:
        runs, first = [], (number + 1) * APART
        for at, rows in enumerate(self.job.sources[number].rows):
            runs.append({"id": f"part-{at}", "first": first, "rows": rows})
            first += rows
        return runs

    def _ids(self, uid: str) -> list[int]:
        if uid == LIVE:
            return list(range(self.job.files * EACH))
        number = next(at for at, source in enumerate(self.job.sources) if source.uid == uid)
        return [(number + 1) * APART + row for row in range(sum(self.job.sources[number].rows))]

    def _build(self, run: SplitRun, asked: Asked, fault: Fault) -> Job:
        job = Job("splits")
        for number, source in enumerate(self.job.sources):
            self._add_source(job, source.uid, self._splits(number), run, asked)
        if self.job.has_live:

            @job.source(uid=LIVE, max_files_per_trigger=1)
            def live(read: DataStreamReader) -> DataFrame:
                return read.schema(IDS).parquet(self.world.path(LIVE))

        for sink in self.job.sinks:
            self._add_sink(job, sink, functools.partial(FaultySink, fault=fault))
        return job

    def _add_source(self, job: Job, uid: str, splits: list[dict[str, Any]], run: SplitRun, asked: Asked) -> None:
        width, most = run.parallelism[uid], run.most
        k = (F.col("id") % 3).cast("int" if self._is_anew else "long").alias("k")

        @job.source(uid=uid, bounded=True, splits=splits, parallelism=width, max_splits_per_batch=most)
        def parts(read: DataFrameReader, split: dict[str, Any]) -> DataFrame:
            asked(uid, split)
            first = split["first"]
            frame = read._spark.range(first, first + split["rows"])
            return frame.select("id", k)

    def _add_sink(self, job: Job, sink: SplitSink, make: Callable[[str], FileSink]) -> None:
        reads: Any = sink.inputs[0]
        if not sink.direct:
            reads = f"of_{sink.uid}"

            @job.transform(inputs=list(sink.inputs), uid=reads)
            def twice(rows: DataFrame) -> DataFrame:
                return rows.withColumn("twice", F.col("id") * 2)

        job.sink(sink.uid, reads, make(self.world.path(sink.uid)), release=sink.release)  # type: ignore[arg-type]

    # ---- one run

    def _attempt(self, run: SplitRun) -> str:
        fault = Fault(run.fault, run.when, run.once)
        asked = Asked(self.job, run, self.world, fault, self.story)
        restore = self._restore(run)
        hung = threading.Event()
        watchdog = threading.Timer(PATIENCE, self._give_up, (fault, hung))
        watchdog.start()
        try:
            status = self._run(run, self._build(run, asked, fault), asked, fault, restore)
        finally:
            self.failures.is_on = False
            watchdog.cancel()
        assert not hung.is_set(), f"a run hung ({run})"
        asked.over()
        return status

    def _restore(self, run: SplitRun) -> str:
        state = self.world.state() if self.world.root.exists() else None
        if not run.restore or state is None or state.status == "FINISHED" or not state.last_completed:
            return "latest"
        self.evidence.rewound()
        return f"chk-{state.last_completed}"

    def _run(self, run: SplitRun, job: Job, asked: Asked, fault: Fault, restore: str) -> str:
        killing = Killing(self.world.storage, run.kill, run.slow, fault, set())
        storage = FaultyStorage(FailingVerbs(killing, self.failures), fault)
        is_first = run is self.schedule.runs[0]
        options: dict[str, Any] = {"restart_attempts": 0}
        if run.restarts:
            options = {"restart_attempts": 100, "restart_delay": 0, "tolerable_failed_checkpoints": 1000}
        try:
            ended = self.world.run(
                job,
                self._hear(run, asked, fault),
                storage,
                restore=restore,
                mode=self.job.mode,
                checkpoint_interval=NEVER if is_first and self.schedule.anew else self.job.interval,
                retained_checkpoints=self.job.retained,
                **options,
            )
        except TransientError as error:
            return self._gone(error, fault)
        self._told_left = any(LEFT in line["message"] for line in ended.of("warning"))
        at = f"at verb {fault.verbs.count}, {asked.count} splits asked for, {asked.failed} failed"
        self.story.note(f"{ended.status} {ended.cause or ''} {at}, {self.failures.count} writes failed so far")
        self._check_status(run, ended.status, ended.cause, asked, fault)
        return ended.status

    def _gone(self, error: TransientError, fault: Fault) -> str:
        assert fault.happened, f"failed without a fault: {type(error).__name__}: {error}"
        self.story.note(f"{type(error).__name__} at verb {fault.verbs.count}")
        return "GONE"

    def _check_status(self, run: SplitRun, status: str, cause: str | None, asked: Asked, fault: Fault) -> None:
        allowed = {"FINISHED"}
        if "stop" in self._requested:
            allowed.add("STOPPED")
        if fault.happened or (asked.failed and not run.restarts):
            allowed.add("RESTARTING")
        if self._requested and run.restarts and (asked.failed or self.failures.count):
            allowed.add("RESTARTING")  # a split failed while a stop waited for its savepoint
        state = self.world.state()
        assert status in allowed, f"a run ended {status} ({cause}), of {run}"
        if status == "STOPPED":
            assert state.last_released == state.last_completed, "STOPPED with a savepoint that is not released"
        if status == "FINISHED" and self.job.has_live:
            assert state.draining, "FINISHED with a live source, and nobody asked for a drain"

    def _hear(self, run: SplitRun, asked: Asked, fault: Fault) -> Callable[[Line], None]:
        lines = 0
        requested = self._requested = []

        def hear(line: Line) -> None:
            nonlocal lines
            kind = line["kind"]
            asked.is_on = True
            ends = kind in ("finished", "stopped", "failed")
            self.failures.is_on = run.verbs_fail and not ends and (self.failures.is_on or kind == "running")
            if kind not in TALKING or requested:
                return
            lines += 1
            if self._fed < self.job.files and (self._rng.random() < self.schedule.feeding or lines > 10):
                self._feed()
            if run.stop is not None and lines >= run.stop and kind != "started":
                requested.append("stop")
            elif kind in _RUNS and self._may_drain(run, fault) and self._has_released_feed():
                requested.append("drain")
            elif run is not self.schedule.runs[-1] and lines > ENOUGH:
                requested.append("stop")
            if requested:
                self._request(requested[0])

        return hear

    def _may_drain(self, run: SplitRun, fault: Fault) -> bool:
        return self.job.has_live and self._fed == self.job.files and (run.drains or fault.happened)

    def _has_released_feed(self) -> bool:
        """Return whether the feed is released. A drain ends the feed at once, but reads all remaining splits."""
        fed = set(self._ids(LIVE))
        return all(fed <= set(self.world.released_ids(sink.uid)) for sink in self.job.sinks if LIVE in sink.inputs)

    def _request(self, kind: str) -> None:
        try:
            self.world.request(kind)
        except StorageTransientError:
            self.story.note(f"{kind} could not be asked for")

    @staticmethod
    def _give_up(fault: Fault, hung: threading.Event) -> None:
        hung.set()
        fault.at, fault.once = 0, False

    # ---- invariants

    def _between(self) -> None:
        for query in self.spark.streams.active:
            query.stop()
        if not self.world.root.exists():
            return
        state = self.world.state()
        assert not state.damage, state.damage
        self.evidence.gather()
        for source in self.job.sources:
            self._published(state, source.uid)
        for sink in self.job.sinks:
            self._check_no_more(sink)
        if self.schedule.loses and (lost := lose_results(self.world, self._rng)):
            self.evidence.rewound()
            self.story.note(f"lost {len(lost)} files of results")

    def _published(self, state: JobState, uid: str) -> set[str]:
        """Return the splits with a valid entry, and check that each has only one."""
        if state.plan is None:
            return set()
        completed: list[tuple[str, int]] = []
        for number in range(state.graph().vertex(uid).parallelism):
            log = SubtaskLog(self.world.storage, subtask_log_path(self.world.job_id, uid, number))
            log.load()
            records = [record for _, record in log.records()]
            if max((record.epoch for record in records if isinstance(record, Open)), default=0) < state.valid_from(uid):
                continue  # from before the restart from scratch
            completed += [(name, number) for record in records if isinstance(record, Batch) for name in record.splits]
        twice = [split for split, count in Counter(split for split, _ in completed).items() if count > 1]
        assert not twice, f"{uid}: {twice} were completed more than once: {completed}"
        return {split for split, _ in completed}

    def _wanted(self, sink: SplitSink) -> Counter[int]:
        return Counter(split_id for uid in sink.inputs for split_id in self._ids(uid))

    def _check_no_more(self, sink: SplitSink) -> None:
        extra = Counter(self.world.released_ids(sink.uid)) - self._wanted(sink)
        assert not extra, f"{sink.uid}: {sum(extra.values())} rows too many, such as {sorted(extra)[:5]}"

    def _check_end(self) -> None:
        state = self.world.state()
        assert state.status == "FINISHED", state.status
        assert state.last_released == state.last_completed, (state.last_released, state.last_completed)
        for number, source in enumerate(self.job.sources):
            covered = numbers(covered_splits(state, source.uid, state.last_completed))
            ids = [split["id"] for split in self._splits(number)]
            done = self._published(state, source.uid) | {ids[number] for number in covered}
            assert done == set(ids), f"{source.uid}: {set(ids) - done} are not done"
        for sink in self.job.sinks:
            self._check_no_more(sink)
            lost = self._wanted(sink) - Counter(self.world.released_ids(sink.uid))
            assert not lost, f"{sink.uid}: {sum(lost.values())} rows lost, such as {sorted(lost)[:5]}"
            check_folder(self.world.base / sink.uid, self.world.job_id)
        self._check_nothing_left()
        self.evidence.gather()
        if not self._is_anew:  # otherwise sources are frozen twice
            self.evidence.check()

    def _check_nothing_left(self) -> None:
        under = [path for path in self.world.everything_under_root() if not LEFT_YET.fullmatch(path)]
        left = [path for path in under if not re.fullmatch(STAYS_OF_SUBTASKS.format(self.world.job_id), path)]
        assert not left, f"left under the root: {left[:10]}"

    def changes(self) -> int:
        """Return the number of changes of the graph during runs."""
        return sum("graph" in event and event["type"] == "Reconfigured" for event in journal_events(self.world))

    def restarts_from_scratch(self) -> int:
        return sum(event["type"] == "Restored" for event in journal_events(self.world))
