"""One run of a job, step by step: decide, prepare (nothing is written), take over, run, end."""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.coordinator.coordinator import Coordinator
from airflow_provider_ckpt.coordinator.options import CheckpointOptions
from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.job.deadlines import check_deadlines
from airflow_provider_ckpt.job.definition import JobDefinition
from airflow_provider_ckpt.job.graph import Vertex
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster import takeover
from airflow_provider_ckpt.jobmaster.collector import clean_up, collect_garbage
from airflow_provider_ckpt.jobmaster.job_master import JobIdentity, JobMaster, Outcome
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.releaser import Releaser
from airflow_provider_ckpt.jobmaster.restore import RestorePoint, beginning, interrupted_restore, restored_event
from airflow_provider_ckpt.jobmaster.retention import Retention
from airflow_provider_ckpt.journal.events import StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker import identify
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.report.status import OnStatus, StatusReporter
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.aftermath import see_to
from airflow_provider_ckpt.spark.decision import Decision, decide
from airflow_provider_ckpt.spark.errors import JobStateMovedError, OutputTakenError
from airflow_provider_ckpt.spark.lost_output import refuse_lost_output
from airflow_provider_ckpt.spark.own_output import refuse_own_output
from airflow_provider_ckpt.spark.query.freezing import freeze_sources
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles
from airflow_provider_ckpt.spark.query.late_files import find_late_files
from airflow_provider_ckpt.spark.query.planning import JobPlan, plan_job
from airflow_provider_ckpt.spark.query.resumable import check_finished_job, check_resumable, sinks_without_rows
from airflow_provider_ckpt.spark.reaching import SparkReach
from airflow_provider_ckpt.spark.session import build_session
from airflow_provider_ckpt.spark.task.batch import BatchRunner
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.local_gateway import LocalGateway
from airflow_provider_ckpt.spark.task.outputs import bind_sinks
from airflow_provider_ckpt.spark.task.progress import Runner
from airflow_provider_ckpt.spark.task.subtasks import SubtaskFactory
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

ALIGNED_TIMEOUT = 10.0
"""Seconds an aligned checkpoint waits for the slowest input before it goes unaligned."""


MOVES = 10
"""How often the state of the job may change under a driver that gets ready, before it gives up."""


@dataclass(frozen=True)
class PreparedJob:
    """Everything that could be checked was; nothing is written yet. ``base``: what was decided from the journal;
    ``anew``: the refusal for which the job does not go on from what it has, but begins anew."""

    job: Job
    options: RunOptions
    spark: SparkSession
    plan: JobPlan
    base: Decision
    anew: InvalidInputError | None = None


def prepare(job: Job, options: RunOptions, storage: Storage, decision: Decision) -> PreparedJob:
    """Plan what was decided. Raises InvalidInputError; writes nothing."""
    spark = build_session(options.job_id, options.conf)
    try:
        plan = plan_job(spark, job, options, decision.done)
        check_resumable(decision.state, plan, allow_non_restored_state=options.allow_non_restored_state)
    except InvalidInputError as refused:
        if not decision.may_begin_anew:
            raise
        # Nothing was released, nothing completed: as in Flink, such a job starts from scratch.
        return PreparedJob(job, options, spark, plan_job(spark, job, options), decision, refused)
    return PreparedJob(job, options, spark, plan, decision)


def execute(
    job: Job,
    options: RunOptions,
    storage: Storage,
    storage_options: Mapping[str, Any],
    on_status: OnStatus,
    journal: Journal,
    reach: SparkReach | None = None,
) -> Outcome:
    """Take the job over and run it to its end. The one way in: for a first start, a retry, a restore, and whatever
    was interrupted.

    1. Decide, from the journal; plan and check everything, writing nothing (:func:`prepare`).
    2. Claim the job, unless the journal says by now what would be decided otherwise: then once more from 1.
    3. See to it that the driver before is gone; record what was decided; fence every log.
    4. Run.

    ``journal``: of the job, not claimed; ``reach``: Spark's way to the root, if it needs one of its own. Raises
    InvalidInputError, FencedError, LogFencedError, JobStateMovedError, and storage errors.
    """
    for _ in range(MOVES):
        decision = decide(storage, options, journal.refresh())
        if decision.finished:
            check_finished_job(decision.state, job, options)
            return Outcome("FINISHED")
        check_deadlines(options, is_new=decision.is_new, now=time.time())
        prepared = prepare(job, options, storage, decision)
        refuse_own_output(job, prepared.plan.reads, storage_options)
        try:
            return _Execution(prepared, storage, storage_options, on_status, reach, journal).run()
        except _MovedError:
            continue
    raise JobStateMovedError(job_id=options.job_id, times=MOVES)


class _MovedError(Exception):
    """What was decided does not hold for the state that the claim would follow."""


class _Execution:
    def __init__(
        self,
        prepared: PreparedJob,
        storage: Storage,
        storage_options: Mapping[str, Any],
        on_status: OnStatus,
        reach: SparkReach | None,
        journal: Journal,
    ) -> None:
        self._prepared, self._reach, self._unclaimed = prepared, reach, journal
        self._job, self._options = prepared.job, prepared.options
        self._spark, self._plan = prepared.spark, prepared.plan
        self._restore: RestorePoint | None = None
        self._storage, self._storage_options = storage, storage_options
        self._application = self._spark.sparkContext.applicationId
        self._status = StatusReporter(on_status, self._options.job_id, self._application)
        self._inbox: queue.Queue[object] = queue.Queue()
        self._late_read: set[str] = set()
        self._batch_thread = ThreadPoolExecutor(1, thread_name_prefix="ckpt-batch")

    def run(self) -> Outcome:
        sinks = bind_sinks(self._job, self._options.job_id, self._storage_options)
        if self._prepared.base.is_new or self._prepared.anew:
            self._refuse_taken(sinks)
        refuse_lost_output(self._prepared.base.state, sinks)
        open_root(self._storage)
        if self._reach is not None:
            self._reach.check_same(self._storage, self._storage_options)
        for sink in sinks.values():
            sink.prepare()
        nonce = uuid.uuid4().hex[:8]
        worker = identify(self._application)
        taken = takeover.claim(self._unclaimed, self._options.attempt or nonce, nonce, worker, self._admit)
        journal = OwnedJournal(self._unclaimed)
        try:
            return self._run_claimed(journal, taken, sinks)
        except OvertakenError:
            raise
        except Exception as error:
            self._note_failure(journal, error)
            raise

    def _admit(self, state: JobState) -> None:
        if decide(self._storage, self._options, state) != self._prepared.base:
            raise _MovedError

    def _note_failure(self, journal: OwnedJournal, error: Exception) -> None:
        """A driver that dies on its way to RUNNING leaves word of it, if it still can."""
        if isinstance(error, SparkFolderLostError):  # the next driver would find the same
            with suppress(CkptError):
                journal.write(StatusChanged("FAILED", time.time(), str(error)))
        elif journal.state.status in (None, "CREATED", "RUNNING"):
            with suppress(CkptError):
                journal.write(StatusChanged("RESTARTING", time.time(), str(error)))

    def _run_claimed(self, journal: OwnedJournal, taken: takeover.TakenOver, sinks: dict[str, BoundSink]) -> Outcome:
        anew = self._prepared.anew is not None
        self._restore = beginning(journal.state) if anew else self._prepared.base.restore
        if self._restore is not None:
            journal.write(restored_event(self._restore, journal.state, time.time()))
        idle = [] if anew else sinks_without_rows(journal.state, self._plan.graph)
        plan, options = self._plan, self._options
        takeover.record_plan(
            journal, options.job_id, plan.graph, plan.definition, plan.schemas_json(), options.public_json()
        )
        self._status.started(journal.state, taken.before, taken.resumed)
        self._warn_of_nothing_read(journal.state)
        for sink, vertex in idle:
            message = f"sink {sink} is new, and {vertex} is finished: it gets no rows; for those, use another job id"
            self._status.say("warning", message, journal.state)
        if self._prepared.anew is not None:
            why = f"nothing was completed yet, and it does not fit what ran before: {self._prepared.anew}"
            self._status.say("anew", f"job {self._options.job_id} begins anew; {why}", journal.state)
        streaming = self._plan.mode == "streaming"
        locations = {source.uid: source.location for source in self._job.sources} if streaming else None
        frozen = freeze_sources(
            self._spark, self._storage, self._options.job_id, journal, self._bounded_reads(), locations
        )
        for uid in [uid for uid, files in frozen.items() if not files.files]:
            where = ", ".join(self._plan.reads[uid].paths)
            self._status.say(
                "warning", f"bounded source {uid} ends at once: there is no file in {where}", journal.state
            )
        outcome = self._drive(journal, taken, sinks, frozen)
        self._see_to_the_rest(journal, taken, sinks, frozen, finished=outcome.status == "FINISHED")
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

    def _see_to_the_rest(
        self,
        journal: OwnedJournal,
        taken: takeover.TakenOver,
        sinks: dict[str, BoundSink],
        frozen: dict[str, FrozenFiles],
        *,
        finished: bool,
    ) -> None:
        job_id, graph = self._options.job_id, self._plan.graph

        def name_late_files() -> None:
            for event in find_late_files(self._spark, journal.state, self._plan.reads, frozen, self._late_read):
                journal.write(event)
                self._status.event(event, journal.state)

        def forget() -> None:  # whoever asked reads the journal
            forget_requests(self._storage, job_id, taken.epoch + 1)

        see_to(self._status, journal.state, "naming late files", name_late_files)
        see_to(self._status, journal.state, "forgetting requests", forget)
        if finished:
            clean = lambda: clean_up(self._storage, job_id, graph, sinks)  # noqa: E731
            see_to(self._status, journal.state, "deleting what the job no longer needs", clean)

    def _warn_of_nothing_read(self, state: JobState) -> None:
        """A source that ended with its first start, because its folder was the wrong one, is finished for good."""
        known = None if state.plan is None else JobDefinition.from_json(state.plan.definition)
        for uid in state.finished_operators():
            frozen, source = state.frozen.get(uid), known.sources.get(uid) if known is not None else None
            if frozen is not None and frozen.path is not None and frozen.count == 0:
                where = ", ".join(source.paths) if source is not None else "its folder"
                message = (
                    f"bounded source {uid} is finished and has read nothing: there was no file in {where} when the job "
                    "began; to read what is there now, run the job under another id"
                )
                self._status.say("warning", message, state)

    def _refuse_taken(self, sinks: Mapping[str, BoundSink]) -> None:
        for uid, sink in sinks.items():
            released = sink.last_released()
            if released:  # by a job of this id, of which this root knows nothing
                job_id, root = self._options.job_id, self._storage.uri
                raise OutputTakenError(sink=uid, job_id=job_id, released=released, root=root)
            sink.check_target()

    def _bounded_reads(self) -> dict[str, Any]:
        """Of the sources that are not over."""
        reads = self._plan.reads
        return {source.uid: reads[source.uid] for source in self._job.sources if source.bounded and source.uid in reads}

    # ---- the run itself

    def _drive(
        self,
        journal: OwnedJournal,
        taken: takeover.TakenOver,
        sinks: dict[str, BoundSink],
        frozen: dict[str, FrozenFiles],
    ) -> Outcome:
        options, graph = self._options, self._plan.graph
        logs = takeover.load_logs(self._storage, options.job_id, graph)
        if self._restore is None:
            self._restore = interrupted_restore(self._storage, options.job_id, journal.state, logs, self._plan.mode)
        takeover.open_logs(journal, logs, taken, self._plan.mode, self._restore)
        takeover.tidy_up(self._storage, options.job_id, taken.epoch)
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
        identity = JobIdentity(self._storage, options.job_id, taken.epoch, options)
        gateway = LocalGateway(context, runners)
        master = JobMaster(identity, coordinator, journal, gateway, releaser, retention, self._status, self._inbox)
        try:
            outcome = master.run()
            for runner in runners.values():
                self._late_read |= runner.late_files()
            return outcome
        finally:
            self._batch_thread.shutdown(wait=False, cancel_futures=True)

    def _context(self, journal: OwnedJournal, taken: takeover.TakenOver) -> RunContext:
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
            self._plan.unions,
            aligned=self._plan.aligned(),
            aligned_timeout=ALIGNED_TIMEOUT,
            whole=self._plan.has_event_time(),
            restore=self._restore,
        )
        runners: dict[str, Runner] = {}
        for vertex in self._plan.graph.vertices:
            subtask = f"{vertex.uid}/0"
            if logs[subtask].state.closed:
                continue
            if self._plan.mode == "batch":
                runners[subtask] = self._batch_runner(factory, context, vertex, logs, frozen)
            else:
                runners[subtask] = factory.runner(
                    vertex, frozenset(state.dropped.get(vertex.uid, ())), state.since(vertex.uid)
                )
        return runners

    def _batch_runner(
        self,
        factory: SubtaskFactory,
        context: RunContext,
        vertex: Vertex,
        logs: dict[str, SubtaskLog],
        frozen: dict[str, FrozenFiles],
    ) -> BatchRunner:
        outputs = factory.outputs(vertex)
        return BatchRunner(
            context,
            vertex,
            f"{vertex.uid}/0",
            logs,
            outputs,
            frozen,
            self._plan.schemas,
            self._batch_thread,
        )
