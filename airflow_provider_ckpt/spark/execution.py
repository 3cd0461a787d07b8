"""One run of a job, step by step: prepare (nothing is written), take over, run, end."""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.messages import SubtaskAtEndOfData, SubtaskDone
from airflow_provider_ckpt.coordinator.options import CheckpointOptions
from airflow_provider_ckpt.errors import CorruptJournalError, OutputTakenError
from airflow_provider_ckpt.job.graph import Vertex
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark import takeover
from airflow_provider_ckpt.spark.batch import BatchRunner
from airflow_provider_ckpt.spark.collector import clean_up, collect_garbage
from airflow_provider_ckpt.spark.context import RunContext
from airflow_provider_ckpt.spark.driver import JobDriver, Outcome, Runner
from airflow_provider_ckpt.spark.frozen import FrozenFiles
from airflow_provider_ckpt.spark.late_files import find_late_files
from airflow_provider_ckpt.spark.outputs import bind_sinks
from airflow_provider_ckpt.spark.planning import Done, JobPlan, check_resumable, plan_job
from airflow_provider_ckpt.spark.reaching import SparkReach
from airflow_provider_ckpt.spark.releaser import Releaser
from airflow_provider_ckpt.spark.restore import goes_on, interrupted_restore, restore_point, restored_event
from airflow_provider_ckpt.spark.retention import Retention
from airflow_provider_ckpt.spark.session import build_session
from airflow_provider_ckpt.spark.status import OnStatus, StatusReporter
from airflow_provider_ckpt.spark.subtasks import SubtaskFactory
from airflow_provider_ckpt.spark.worker import identify
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

ALIGNED_TIMEOUT = 10.0
"""Seconds an aligned checkpoint waits for the slowest input before it goes unaligned."""


@dataclass(frozen=True)
class PreparedJob:
    """Everything that could be checked was; nothing is written yet."""

    job: Job
    options: RunOptions
    spark: SparkSession
    plan: JobPlan
    restore: CheckpointCompleted | None
    is_new: bool
    """Its root knows no job of this id yet."""


def prepare(job: Job, options: RunOptions, storage: Storage, state: JobState) -> PreparedJob:
    """Raises InvalidInputError. ``state``: what the journal says; writes nothing."""
    if state.damage:
        raise CorruptJournalError(job_id=options.job_id, reason="; ".join(state.damage))
    spark = build_session(options.job_id, options.conf)
    # a checkpoint may bring back what is over by now
    plan = plan_job(
        spark, job, options, Done.of(state) if goes_on(storage, options.job_id, options.restore, state) else None
    )
    check_resumable(state, plan, allow_non_restored_state=options.allow_non_restored_state)
    restore = restore_point(storage, options.job_id, options.restore, state, plan.graph)
    return PreparedJob(job, options, spark, plan, restore, is_new=state.created is None)


def execute(
    prepared: PreparedJob,
    storage: Storage,
    storage_options: Mapping[str, Any],
    on_status: OnStatus,
    reach: SparkReach | None = None,
) -> Outcome:
    """Take the job over and run it to its end. Raises FencedError, LogFencedError, and storage errors.

    ``reach``: Spark's way to the root, if it needs one of its own; seen to lead there as soon as the root is made.
    """
    return _Execution(prepared, storage, storage_options, on_status, reach).run()


class _Execution:
    def __init__(
        self,
        prepared: PreparedJob,
        storage: Storage,
        storage_options: Mapping[str, Any],
        on_status: OnStatus,
        reach: SparkReach | None,
    ) -> None:
        self._reach = reach
        self._job, self._options = prepared.job, prepared.options
        self._spark, self._plan, self._restore = prepared.spark, prepared.plan, prepared.restore
        self._is_new = prepared.is_new
        self._storage, self._storage_options = storage, storage_options
        self._application = self._spark.sparkContext.applicationId
        self._status = StatusReporter(on_status, self._options.job_id, self._application)
        self._inbox: queue.Queue[object] = queue.Queue()
        self._late_read: set[str] = set()
        self._batch_thread = ThreadPoolExecutor(1, thread_name_prefix="ckpt-batch")

    def run(self) -> Outcome:
        sinks = bind_sinks(self._job, self._options.job_id, self._storage_options)
        if self._is_new:
            self._refuse_taken(sinks)
        open_root(self._storage)
        if self._reach is not None:
            self._reach.check_same(self._storage, self._storage_options)
        for sink in sinks.values():
            sink.prepare()
        journal, taken = self._claim()
        if self._restore is not None:
            journal.write(restored_event(self._restore, journal.state, time.time()))
        takeover.record_plan(journal, self._options.job_id, self._plan, self._options.public_json())
        self._status.started(journal.state, taken.before, taken.resumed)
        frozen = takeover.freeze_sources(
            self._spark, self._storage, self._options.job_id, journal, self._bounded_reads()
        )
        for uid in [uid for uid, files in frozen.items() if not files.files]:
            where = ", ".join(self._plan.reads[uid].paths)
            self._status.say(
                "warning", f"bounded source {uid} ends at once: there is no file in {where}", journal.state
            )
        outcome = self._drive(journal, taken, sinks, frozen)
        for event in find_late_files(self._spark, journal.state, self._plan.reads, frozen, self._late_read):
            journal.write(event)
            self._status.event(event, journal.state)
        journal.flush()
        if outcome.status == "FINISHED":
            clean_up(self._storage, self._options.job_id, self._plan.graph, sinks)
        kind = {"FINISHED": "finished", "STOPPED": "stopped"}.get(outcome.status, "failed")
        cause = f": {outcome.cause}" if outcome.cause else ""
        self._status.say(
            kind,
            f"job {self._options.job_id} {outcome.status}{cause}",
            journal.state,
            status=outcome.status,
            terminal=outcome.status == "FAILED",
        )
        return outcome

    def _refuse_taken(self, sinks: Mapping[str, BoundSink]) -> None:
        for uid, sink in sinks.items():
            released = sink.last_released()
            if released:
                job_id, root = self._options.job_id, self._storage.uri
                raise OutputTakenError(sink=uid, job_id=job_id, released=released, root=root)

    def _claim(self) -> tuple[takeover.OwnedJournal, takeover.TakenOver]:
        options = self._options
        journal = Journal(
            self._storage,
            options.job_id,
            buffer_bytes=options.journal_buffer_bytes,
            flush_interval=options.journal_flush_interval,
        )
        journal.replay()
        nonce = uuid.uuid4().hex[:8]
        taken = takeover.claim(journal, options.attempt or nonce, nonce, identify(self._application))
        return takeover.OwnedJournal(journal), taken

    def _bounded_reads(self) -> dict[str, Any]:
        """Of the sources that are not over."""
        reads = self._plan.reads
        return {source.uid: reads[source.uid] for source in self._job.sources if source.bounded and source.uid in reads}

    # ---- the run itself

    def _drive(
        self,
        journal: takeover.OwnedJournal,
        taken: takeover.TakenOver,
        sinks: dict[str, BoundSink],
        frozen: dict[str, FrozenFiles],
    ) -> Outcome:
        options, graph = self._options, self._plan.graph
        logs = takeover.load_logs(self._storage, options.job_id, graph)
        if self._restore is None and self._plan.mode == "streaming":
            self._restore = interrupted_restore(self._storage, options.job_id, journal.state, logs)
        context = self._context(journal, taken)
        runners = self._runners(context, journal.state, logs, sinks, frozen)
        if taken.resumed:
            collect_garbage(self._storage, options.job_id, graph, logs, sinks, taken.attempt, journal.check_fenced)
        final_only = frozenset(operator.uid for operator in self._job.sinks if operator.release == "final")
        coordinator = Coordinator(
            graph,
            self._checkpoint_options(),
            epoch=taken.epoch,
            restored=takeover.restored(journal.state),
            now=time.time(),
        )
        releaser = Releaser(
            graph,
            logs,
            sinks,
            final_only,
            epoch=taken.epoch,
            post=self._inbox.put,
            check_fenced=journal.check_fenced,
        )
        retention = Retention(
            self._storage,
            options.job_id,
            graph,
            journal,
            logs,
            retained=options.retained_checkpoints,
            final_only=final_only,
        )
        driver = JobDriver(context, coordinator, journal, runners, releaser, retention, self._status, self._inbox)
        try:
            outcome = driver.run()
            for runner in runners.values():
                self._late_read |= runner.late_files()
            return outcome
        finally:
            self._batch_thread.shutdown(wait=False, cancel_futures=True)

    def _context(self, journal: takeover.OwnedJournal, taken: takeover.TakenOver) -> RunContext:
        return RunContext(
            spark=self._spark,
            storage=self._storage,
            storage_options=self._storage_options,
            job=self._job,
            job_id=self._options.job_id,
            graph=self._plan.graph,
            options=self._options,
            epoch=taken.epoch,
            attempt=taken.attempt,
            post=self._inbox.put,
            check_fenced=journal.check_fenced,
        )

    def _checkpoint_options(self) -> CheckpointOptions:
        options = self._options
        return CheckpointOptions(
            interval=options.checkpoint_interval,
            min_pause=options.min_pause,
            timeout=options.checkpoint_timeout,
            tolerable_failed=options.tolerable_failed_checkpoints,
            periodic=self._plan.mode == "streaming",
        )

    def _runners(
        self,
        context: RunContext,
        state: JobState,
        logs: dict[str, SubtaskLog],
        sinks: dict[str, BoundSink],
        frozen: dict[str, FrozenFiles],
    ) -> dict[str, Runner]:
        factory = SubtaskFactory(
            context,
            logs,
            sinks,
            frozen,
            self._plan.schemas,
            aligned=self._plan.aligned(),
            aligned_timeout=ALIGNED_TIMEOUT,
            restore=self._restore,
        )
        runners: dict[str, Runner] = {}
        for vertex in self._plan.graph.vertices:
            subtask = f"{vertex.uid}/0"
            if logs[subtask].state.closed:
                self._tell_closed(context, subtask, state)
                continue
            if self._plan.mode == "batch":
                runners[subtask] = self._batch_runner(factory, context, vertex, logs, frozen)
            else:
                runners[subtask] = factory.runner(vertex, frozenset(state.dropped.get(vertex.uid, ())))
        return runners

    def _tell_closed(self, context: RunContext, subtask: str, state: JobState) -> None:
        """The tail of the log decides about the end (R11): the driver before may not have come to the journal."""
        if subtask not in state.finished:
            world = {"epoch": context.epoch, "subtask": subtask, "attempt": context.attempt}
            context.post(SubtaskAtEndOfData(**world))  # type: ignore[arg-type]
            context.post(SubtaskDone(**world))  # type: ignore[arg-type]

    def _batch_runner(
        self,
        factory: SubtaskFactory,
        context: RunContext,
        vertex: Vertex,
        logs: dict[str, SubtaskLog],
        frozen: dict[str, FrozenFiles],
    ) -> BatchRunner:
        outputs = factory.outputs(vertex)
        runner = BatchRunner(
            context,
            vertex,
            f"{vertex.uid}/0",
            logs,
            outputs,
            frozen,
            self._plan.schemas,
            self._batch_thread,
        )
        runner.open()
        return runner
