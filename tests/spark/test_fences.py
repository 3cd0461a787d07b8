"""The driver's ownership checks (R8), and the actions forbidden after an end (R2, R11, R23).

No Spark runs here: each part gets a storage, a log and a journal, and the test checks its reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.protocol.checkpoint_options import CheckpointOptions
from airflow_provider_ckpt.coordinator.protocol.reports import (
    SubtaskAtEndOfData,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    SubtaskPaused,
)
from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.jobmaster.clock import Clock
from airflow_provider_ckpt.jobmaster.gateway import Inbox, Received
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity
from airflow_provider_ckpt.jobmaster.job_master import JobMaster
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.releaser import Releaser
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.events import CheckpointCompleted, PlanRecorded
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_request import StopRequest
from airflow_provider_ckpt.model.pause_reason import DropSource
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.errors import QueryFailedError
from airflow_provider_ckpt.spark.task.streaming import running_query
from airflow_provider_ckpt.spark.task.streaming.query_boundary import QueryBoundary
from airflow_provider_ckpt.spark.task.streaming.running_query import RunningQuery
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.status.job_overview import JobOverview, read_overview, write_overview
from airflow_provider_ckpt.status.status_reporter import StatusReporter
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import BatchConflictError, LogFencedError, PreparedLostError
from airflow_provider_ckpt.subtasklog.input_gate import InputGate, InputPassed
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared, PreparedStore
from airflow_provider_ckpt.subtasklog.records import Barrier, Batch
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.phase import TaskPhase
from tests.coordinator.harness import graph, vertex
from tests.spark.runner_parts import A0, ATTEMPT, GRAPH, NOTHING, V0, RunnerParts, end_log
from tests.support.definitions import STREAMING


@pytest.fixture
def subtask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunnerParts:
    monkeypatch.setattr(running_query, "_STOPPED_WITHIN", 0.0)  # no driver exists that could stop the query
    return RunnerParts(open_storage(tmp_path))


Overtaken = Callable[[RunnerParts], None]
TAKEN = pytest.mark.parametrize(
    "taken", [RunnerParts.take_job, RunnerParts.take_log], ids=["job claimed", "log opened"]
)


# ---- a micro-batch


@TAKEN
def test_r8_a_fenced_driver_stages_and_publishes_nothing(subtask: RunnerParts, taken: Overtaken) -> None:
    query = subtask.query()
    subtask.plan(0)
    query.foreach_batch(NOTHING, 0)
    subtask.commit(0)
    taken(subtask)
    with pytest.raises((FencedError, LogFencedError)):
        query.foreach_batch(NOTHING, 1)
    assert subtask.staged == [0]
    assert subtask.batches() == []


@TAKEN
def test_r8_a_driver_fenced_during_staging_keeps_spark_from_committing(subtask: RunnerParts, taken: Overtaken) -> None:
    subtask.plan(0)
    subtask.while_staging = lambda: taken(subtask)
    with pytest.raises((FencedError, LogFencedError)):
        subtask.query().foreach_batch(NOTHING, 0)
    assert subtask.staged == [0]


def test_r1_a_batch_is_published_only_after_spark_has_committed_it(subtask: RunnerParts) -> None:
    batches = subtask.micro_batches()
    subtask.plan(0)
    RunningQuery(subtask.context, batches).foreach_batch(NOTHING, 0)
    batches.finish_committed()
    assert subtask.batches() == []
    assert PreparedStore(subtask.storage, "prepared").read(ATTEMPT) == Prepared(ATTEMPT, 0, (), {})
    subtask.commit(0)
    for _ in range(2):
        batches.finish_committed()
    assert subtask.batches() == [0]


def test_r1_a_committed_batch_without_its_prepared_record_is_refused(subtask: RunnerParts) -> None:
    subtask.plan(4)
    subtask.commit(4)
    for records in ([], [None], [Prepared(AttemptId(0, 0, "x"), 3, (), {})]):
        with pytest.raises(PreparedLostError) as lost:
            subtask.micro_batches().recover(records)
        assert f"{subtask.storage.uri}/prepared/<attempt>.json of batch 4 is gone" in str(lost.value)
    assert subtask.batches() == []


@pytest.mark.parametrize("cut", [0, 40])
def test_r1_an_unreadable_prepared_record_is_refused_by_name(subtask: RunnerParts, cut: int) -> None:
    store = PreparedStore(subtask.storage, "prepared")
    store.write(Prepared(ATTEMPT, 4, (), {}))
    subtask.storage.replace(f"prepared/{ATTEMPT}.json", subtask.storage.read(f"prepared/{ATTEMPT}.json")[:cut])
    subtask.plan(4)
    subtask.commit(4)
    with pytest.raises(PreparedLostError, match=f"prepared/{ATTEMPT}.json cannot be read: no JSON"):
        subtask.micro_batches().recover(map(store.read, [ATTEMPT]))
    assert subtask.batches() == []


def test_r1_a_committed_batch_is_published_by_the_next_attempt(subtask: RunnerParts) -> None:
    subtask.logs[V0].append_batch(Batch(3, {}))
    subtask.plan(4)
    subtask.commit(4)
    earlier, last = (AttemptId(0, number, "x") for number in (0, 1))
    subtask.micro_batches().recover([None, Prepared(last, 3, (), {}), Prepared(earlier, 4, (), {})])
    assert subtask.batches() == [3, 4]


def test_r1_a_missing_entry_before_the_committed_batch_is_refused(subtask: RunnerParts) -> None:
    subtask.plan(4)
    subtask.commit(4)
    with pytest.raises(BatchConflictError, match="was offered after batch"):
        subtask.micro_batches().recover([Prepared(AttemptId(0, 0, "x"), 4, (), {})])
    assert subtask.batches() == []


def test_r10_a_barrier_of_a_trigger_is_not_repeated_for_an_input(
    subtask: RunnerParts,
) -> None:
    batches = subtask.micro_batches()
    batches.inputs.gate = gate = InputGate(("a__v",), epoch=1)
    batches.publication.trigger(3)
    [snapshot] = [report.snapshot for report in subtask.posted]
    gate.offer("a__v", 7, Barrier(1, 3, snapshot))
    assert gate.poll(0.0, {}) == [InputPassed("a__v", 8, ended=False)]


# ---- a vertex in BATCH mode


@TAKEN
def test_r8_a_fenced_batch_driver_runs_nothing(subtask: RunnerParts, taken: Overtaken) -> None:
    end_log(subtask.logs[A0])
    taken(subtask)
    subtask.batch_runner().deploy(VertexPlan(0, ()))
    assert subtask.staged == []
    assert isinstance(subtask.posted[-1], SubtaskFenced)


@TAKEN
def test_r8_a_batch_driver_fenced_while_it_runs_publishes_nothing(subtask: RunnerParts, taken: Overtaken) -> None:
    """The fence check comes before the append, so the driver never appends a number that belongs to another driver."""
    end_log(subtask.logs[A0])
    appended: list[object] = []
    subtask.log.append_batch = appended.append  # type: ignore[method-assign,assignment]
    subtask.while_staging = lambda: taken(subtask)
    subtask.batch_runner().deploy(VertexPlan(0, ()))
    assert (subtask.staged, appended) == ([0], [])
    assert isinstance(subtask.posted[-1], SubtaskFenced)


def test_r23_a_consumer_of_a_producer_without_an_end_runs_nothing(subtask: RunnerParts) -> None:
    subtask.logs[A0].append_batch(Batch(0, {}))
    subtask.batch_runner().deploy(VertexPlan(0, ()))
    assert subtask.staged == []
    assert isinstance(subtask.posted[-1], SubtaskFailed)


@pytest.mark.parametrize("ended", [False, True], ids=["died before its end", "ended"])
def test_r23_a_batch_attempt_counts_only_with_its_end_of_data(tmp_path: Path, ended: bool) -> None:
    storage = open_storage(tmp_path)
    before = RunnerParts(storage)
    before.log.append_batch(Batch(0, {}))
    if ended:
        before.log.end_of_data("finish")
    journal = Journal(storage, "job")
    journal.claim("t", Worker(), 0.0)
    journal.write(PlanRecorded(graph(vertex("v")), {}, 0.0, STREAMING))
    log = SubtaskLog(storage, "log-v")
    log.load()
    open_logs(OwnedJournal(journal), {V0: log}, 2, "batch", None)
    assert [record.batch_id for _, record in log.records() if isinstance(record, Batch)] == [0] * ended
    assert (log.state.end_of_data is not None) is ended


# ---- a streaming query


def no_query() -> None:
    raise AssertionError("a query is to be started")


def pause_runner(runner: StreamingRunner) -> None:
    runner._machine.phase = TaskPhase.RUNNING
    runner.pause(DropSource("live"))


def test_r11_a_subtask_with_its_end_in_the_log_reads_nothing(subtask: RunnerParts) -> None:
    end_log(subtask.log)
    runner = subtask.runner(no_query)
    runner.deploy(VertexPlan(0, ()))
    report = subtask.first_report()
    runner.close()
    assert isinstance(report, SubtaskAtEndOfData), report


def test_r2_a_query_with_an_uncommitted_planned_batch_is_at_no_boundary(subtask: RunnerParts) -> None:
    """The batch has to run with the source before the source is left out."""
    subtask.plan(0)
    subtask.commit(0)
    subtask.plan(1)
    runner = subtask.runner(no_query)
    pause_runner(runner)
    report = subtask.first_report()
    runner.close()
    assert isinstance(report, SubtaskFailed), report
    assert "a query is to be started" in report.cause


def test_r12_a_query_has_no_end_until_its_planned_batch_has_run(subtask: RunnerParts) -> None:
    """When a query is stopped, Spark ends it as if its batch were done."""
    subtask.plan(0)
    subtask.commit(0)
    subtask.plan(1)
    query = subtask.query()
    stopped: Any = SimpleNamespace(awaitTermination=lambda: None)
    query._launch = lambda built, trigger: stopped  # type: ignore[method-assign]
    with pytest.raises(QueryFailedError, match="stopped in the planned batch 1"):
        query.run_planned(NOTHING)
    subtask.commit(1)
    query.run_planned(NOTHING)


def test_r12_a_query_with_a_planned_final_batch_runs_only_that_batch(subtask: RunnerParts) -> None:
    """Later rows have event times below the maximal watermark: Spark would read them and drop them as late."""
    subtask.plan(0)
    subtask.commit(0)
    subtask.folder.plan_final_batch(0, 0)
    ran: list[str] = []
    reads = {"live": SourceReads("rate")}
    built = SimpleNamespace(watermark=None, stateful=False, final=False, reads=reads)
    runner = subtask.runner(lambda: built)

    def run_planned(built: object) -> None:
        ran.append("the final batch")
        subtask.commit(1)

    query: Any = SimpleNamespace(
        run=lambda built, trigger: ran.append("all that comes"),
        run_planned=run_planned,
        stop_after_batch=lambda: None,
        cause=lambda error: error,
    )
    runner._query = runner._boundary._query = query
    runner.deploy(VertexPlan(0, ()))
    report = subtask.first_report()
    runner.close()
    assert ran == ["the final batch"]
    assert subtask.held[-1] is False  # Spark refuses two watermarks of a row at the maximal one
    assert report == SubtaskAtEndOfData(1, V0, ATTEMPT)


def test_r13_a_batch_at_a_lower_watermark_is_never_planned(subtask: RunnerParts) -> None:
    """It would accept rows of windows that are closed, and these windows would be output twice."""
    subtask.plan(0)
    subtask.commit(0)
    subtask.folder.plan_batch_at(5_000, 0, 0)
    subtask.commit(1)
    planned: list[int | None] = []
    query: Any = SimpleNamespace(run_planned=lambda built: planned.append(subtask.folder.newest_offsets()))
    boundary = QueryBoundary(query, subtask.folder, lambda hold: NOTHING)
    boundary.run_at(1_000)
    boundary.run_at(5_000)
    assert planned == []
    boundary.run_at(6_000)
    assert planned == [2]
    assert subtask.folder.planned_watermark(2) == 6_000


def test_r2_a_query_at_a_boundary_is_stopped_there(subtask: RunnerParts) -> None:
    subtask.plan(0)
    subtask.commit(0)
    runner = subtask.runner(no_query)
    pause_runner(runner)
    report = subtask.first_report()
    runner.close()
    assert isinstance(report, SubtaskPaused), report
    assert report.batch_id == 0


def test_r1_a_batch_committed_during_the_stop_of_its_query_is_published(subtask: RunnerParts) -> None:
    """Spark commits the batch while it stops. The next query of this attempt overwrites its prepared record."""
    runner = subtask.runner(no_query)
    subtask.plan(0)
    runner._query.foreach_batch(NOTHING, 0)
    query: Any = SimpleNamespace(isActive=False, stop=lambda: subtask.commit(0))
    runner._query._query = query
    pause_runner(runner)
    report = subtask.first_report()
    runner.close()
    assert isinstance(report, SubtaskPaused), report
    assert subtask.batches() == [0]


def test_r1_a_commit_after_the_end_of_a_run_is_left_to_the_next_run(subtask: RunnerParts) -> None:
    runner = subtask.runner(no_query)
    subtask.plan(0)
    runner._query.foreach_batch(NOTHING, 0)
    runner.stop()
    subtask.commit(0)
    runner.on_progress()
    assert subtask.batches() == []


# ---- releases


def test_r9_a_fenced_driver_releases_nothing(subtask: RunnerParts) -> None:
    released: list[int] = []

    def release(handles: object, checkpoint: int) -> dict[str, int]:
        released.append(checkpoint)
        return {"rows": 0}

    sink: Any = SimpleNamespace(release=release)
    completed = CheckpointCompleted(1, 0.0, 1.0, "checkpoint", {}, {})
    for taken, expected in ((False, [1]), (True, [1])):
        subtask.claimed = taken
        releaser = Releaser(
            lambda: GRAPH,
            subtask.logs,
            {"out": sink},
            ReleasePolicies(),
            job_id="j",
            epoch=1,
            post=subtask.posted.append,
            check_fenced=subtask.check_fenced,
        )
        releaser.release("out", completed, {})
        releaser.close()
        assert released == expected
    assert [type(report).__name__ for report in subtask.posted] == ["ReleaseDone", "ReleaseFailed"]
    assert subtask.posted[-1].terminal


# ---- the driver's loop


class Unwatched(AssertionError):
    """An error that ends a loop which runs many times and notices nothing."""


class NoTasks:
    """The tasks of a job that never report."""

    def start(self) -> None:
        pass

    def send(self, *commands: object) -> None:
        pass

    def on_restarted(self, subtask: SubtaskId, attempt: AttemptId) -> None:
        pass

    def pull_inputs(self, consumers: Iterable[SubtaskId]) -> None:
        raise AssertionError(consumers)

    def poll_changes(self) -> None:
        pass

    def stop(self, *, after_batch: bool) -> None:
        pass


def master(
    storage: Storage, journal: Journal, messages: Iterable[Received] = (), overview_interval: float = 0
) -> JobMaster:
    """Return a JobMaster whose clock raises Unwatched after 400 readings."""
    inbox = Inbox()
    for message in messages:
        inbox.put(message)
    ticks = iter(range(400))

    def steady() -> float:
        tick = next(ticks, None)
        if tick is None:
            raise Unwatched
        return tick / 4

    attempts: dict[SubtaskId, AttemptId] = dict.fromkeys(GRAPH.subtasks, ATTEMPT)
    idle: Any = SimpleNamespace(close=lambda: None, snapshot_if_due=lambda now: None)
    options: Any = SimpleNamespace(overview_interval=overview_interval, shown_changes=dict)
    return JobMaster(
        JobIdentity(storage, "job", 1, options),
        Coordinator(GRAPH, CheckpointOptions(), epoch=1, restored=RestoredState(), attempts=attempts),
        journal=OwnedJournal(journal),
        gateway=NoTasks(),
        releaser=idle,
        retention=idle,
        status=StatusReporter(lambda line: None, "job", None, "/r"),
        inbox=inbox,
        clock=Clock(lambda: 0.0, steady),
    )


def claimed(storage: Storage) -> Journal:
    journal = Journal(storage, "job")
    journal.claim("t", Worker(), 0.0)
    return journal


def test_r8_an_idle_driver_notices_its_fence(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    journal = claimed(storage)
    claimed(storage)
    with pytest.raises(FencedError, match="epoch 2"):
        master(storage, journal).run()


@pytest.mark.parametrize("overtaken", [False, True])
def test_r8_an_ended_driver_leaves_the_overview_to_its_successor(tmp_path: Path, overtaken: bool) -> None:
    """The successor claims the job while the tasks of the ended driver stop."""
    storage = open_storage(tmp_path)
    failed = SubtaskFailed(1, V0, ATTEMPT, "odd", terminal=True)
    job_master = master(storage, claimed(storage), [failed], overview_interval=3600)

    def stop(*, after_batch: bool) -> None:
        if overtaken:
            claimed(storage)
        write_overview(storage, JobOverview("job", 1.0, "RUNNING", 2))

    job_master._gateway.stop = stop  # type: ignore[method-assign]
    assert job_master.run().status == "FAILED"
    last = read_overview(storage, "job")
    assert last is not None
    assert last.status == ("RUNNING" if overtaken else "FAILED")


def test_r8_a_fenced_subtask_ends_the_driver_without_a_restart(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    fenced = SubtaskFenced(1, V0, ATTEMPT, "log was taken over by attempt 0002-b")
    with pytest.raises(OvertakenError, match=r"v/0 was taken over.*0002-b"):
        master(storage, claimed(storage), [fenced]).run()
    assert Journal(storage, "job").replay().status is None


def test_r8_a_fenced_subtask_names_the_later_driver(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    journal = claimed(storage)
    claimed(storage)
    fenced = SubtaskFenced(1, V0, ATTEMPT, "log was taken over by attempt 0002-b")
    with pytest.raises(FencedError, match="epoch 2"):
        master(storage, journal, [fenced]).run()


def test_r22_a_subtask_fenced_by_its_next_attempt_does_not_end_the_driver(tmp_path: Path) -> None:
    """The next attempt reports for the subtask. Every later message of the previous attempt is dropped."""
    storage = open_storage(tmp_path)
    fenced = SubtaskFenced(1, V0, ATTEMPT, "fenced", by=ATTEMPT.next("b"))
    late = SubtaskFailed(1, V0, ATTEMPT, "odd")
    last = SubtaskFailed(1, V0, ATTEMPT.next("b"), "even", terminal=True)
    messages: list[Received] = [fenced, SubtaskOpened(1, V0, ATTEMPT.next("b")), late, last]
    outcome = master(storage, claimed(storage), messages).run()
    assert (outcome.status, "even" in str(outcome.cause)) == ("FAILED", True)


def test_r8_the_report_of_a_fenced_log_names_the_later_attempt(subtask: RunnerParts) -> None:
    for later in (ATTEMPT.next("b"), AttemptId(2, 0, "b")):
        report_crash(subtask.context, V0, ATTEMPT, LogFencedError(log="log-v", attempt=later, epoch=later.epoch))
    assert [report.by for report in subtask.posted] == [ATTEMPT.next("b"), AttemptId(2, 0, "b")]


def test_a_failure_without_a_jvm_is_not_terminal(subtask: RunnerParts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's function fails with an arbitrary error if there is no JVM. A status FAILED would be permanent."""
    monkeypatch.setattr("airflow_provider_ckpt.spark.task.crashes.is_gone", lambda: True)
    report_crash(subtask.context, V0, ATTEMPT, FunctionFailedError(uid="v", location="job.py:1", cause="Py4JError"))
    (failed,) = subtask.posted
    assert (failed.terminal, failed.driver_is_lost, failed.traceback) == (False, True, None)
    assert "Spark's JVM ended while the job ran" in failed.cause
    assert "the function of operator 'v' (job.py:1) failed: Py4JError" in failed.cause


def test_r10_decisions_are_durable_before_the_driver_acts_on_them(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    outcome = master(storage, claimed(storage), [SubtaskFailed(1, V0, ATTEMPT, "odd")]).run()
    assert outcome.status == "RESTARTING"
    state = Journal(storage, "job").replay()
    assert (state.status, "odd" in str(state.cause)) == ("RESTARTING", True)


def test_only_the_first_failure_is_logged_with_its_stack_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log also has failures that the JobMaster ignores."""
    storage = open_storage(tmp_path)
    stale = SubtaskFailed(2, V0, ATTEMPT, "stale", stack_trace="Traceback: stale")
    first = SubtaskFailed(1, V0, ATTEMPT, "odd", stack_trace="Traceback: odd")
    later = SubtaskFailed(1, V0, ATTEMPT, "even", stack_trace="Traceback: even")
    assert master(storage, claimed(storage), [stale, first, later]).run().status == "RESTARTING"
    assert [record.getMessage() for record in caplog.records if record.name.endswith("job_master")] == [
        "subtask v/0 failed too: stale",
        "subtask v/0 failed\nTraceback: odd",
        "subtask v/0 failed too: even",
    ]


def test_a_failure_is_reported_with_its_whole_stack_trace(subtask: RunnerParts) -> None:
    try:
        raise QueryFailedError(vertex="v", cause="ValueError") from ValueError("no price")
    except QueryFailedError as error:
        report_crash(subtask.context, V0, ATTEMPT, error)
    (failed,) = subtask.posted
    assert failed.stack_trace.startswith("ValueError: no price\n")
    assert "test_a_failure_is_reported_with_its_whole_stack_trace" in failed.stack_trace
    assert failed.cause in failed.stack_trace


def test_the_timer_writes_events_that_need_no_decision(tmp_path: Path) -> None:
    """The client gets its answer even if the job decides nothing for hours."""
    storage = open_storage(tmp_path)
    journal = Journal(storage, "job", flush_interval=0.0)
    journal.claim("t", Worker(), 0.0)
    with pytest.raises(Unwatched):
        master(storage, journal, [StopRequest(name="r-1"), StopRequest(name="r-2")]).run()
    assert Journal(storage, "job").replay().answered == {"r-1", "r-2"}


@pytest.mark.parametrize("when", ["before", "while it is staged"])
def test_a_batch_of_a_fenced_driver_ends_as_interrupted_for_spark(
    subtask: RunnerParts, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Spark logs any other error with its stack traces and ours. The driver logs one line for it."""
    monkeypatch.setattr(running_query, "_STOPPED_WITHIN", 60.0)

    class Driver(list[Any]):
        """A driver that stops the query when it gets a report."""

        def append(self, report: object) -> None:
            super().append(report)
            query._end.interrupt()

    subtask.plan(0)
    subtask.posted = Driver()
    query = subtask.query()
    if when == "before":
        subtask.take_job()
    else:
        subtask.while_staging = subtask.take_job
    with pytest.raises(RuntimeError, match=r"java\.lang\.InterruptedException"):
        query.foreach_batch(NOTHING, 0)
    [report] = subtask.posted
    assert isinstance(report, SubtaskFenced)
    assert report.cause == str(query._end.failure)
    assert "job job was taken over: epoch 2 is owned by attempt t2 (there)" in report.cause
    assert subtask.batches() == []
