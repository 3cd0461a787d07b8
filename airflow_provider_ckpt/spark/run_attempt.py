"""The third stage of a run: prepare the root and the sinks, claim the job, run it, and clean up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.jobmaster.job_identity import Upgraded
from airflow_provider_ckpt.jobmaster.job_master import Outcome
from airflow_provider_ckpt.jobmaster.post_run import post_run, tidy_up
from airflow_provider_ckpt.jobmaster.recorded_plan import record_plan
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import new_nonce
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs, void_removed_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler, Reconciliation
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import RecoveryPoint, find_recovery_point, load_logs
from airflow_provider_ckpt.jobmaster.recovery.restore import restored_event
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.events import FilesForgotten, LateFilesFound, SourceFilesChanged, StatusChanged
from airflow_provider_ckpt.journal.kinds.reconciliation import Reset
from airflow_provider_ckpt.journal.request_files import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.deployment import ClaimedRun, Deployment
from airflow_provider_ckpt.spark.forgotten_files import SourceFiles, newly_forgotten
from airflow_provider_ckpt.spark.plan.planned_splits import lists_that_differ
from airflow_provider_ckpt.spark.plan.resumable import sinks_without_rows
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.spark.preparation.notices import (
    discards_timers,
    ends_at_once,
    finds_table_empty,
    finished_without_a_file,
    gets_no_rows,
    hides_partitions,
    keeps_state_partitions,
    leaves_out_temporary,
    looks_up_files,
    resumes_with_edited_code,
    suggests_fewer_partitions,
    unused_assignments,
)
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun
from airflow_provider_ckpt.spark.query.sources.empty_sources import leaves_out
from airflow_provider_ckpt.spark.query.sources.freezing import freeze_sources, freeze_split_lists
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd, read_end
from airflow_provider_ckpt.spark.query.sources.frozen_files import without
from airflow_provider_ckpt.spark.query.sources.late_files import name_late_files, reads_of_finished
from airflow_provider_ckpt.spark.query.sources.shared_files import followers
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.storage.root import open_root


@dataclass(frozen=True)
class Ended:
    """The result of an attempt to run the job. Fields other than ``outcome`` are set only if an upgrade ended the run.

    Attributes:
        outcome: outcome of the run; None if the job was only prepared for workers, which may now begin.
        version: the version of the job that the driver must run next.
        upgraded: the upgrade, with the outcome to journal for its request when ``version`` begins.
        journal: the journal of the run that has ended, to which the driver may still write.
    """

    outcome: Outcome | None
    version: PreparedRun | None = None
    upgraded: Upgraded | None = None
    journal: OwnedJournal | None = None


class StaleDecisionError(Exception):
    """A claim that the driver does not make, because its decision no longer follows from the journal."""


class RunAttempt:
    """One attempt to claim and run a prepared job: steps 2 to 5 of :func:`execute`."""

    def __init__(
        self, prepared: PreparedRun, reconciler: Reconciler, *, for_workers: bool, upgraded: Upgraded | None
    ) -> None:
        self._prepared, self._reconciler = prepared, reconciler
        self._for_workers, self._upgraded = for_workers, upgraded
        self._reconciliation: Reconciliation | None = None
        self._forgotten: tuple[str, ...] = ()
        """Files that this run abandons (``forget_files``)."""
        self._options, self._plan, self._sinks = prepared.options, prepared.plan, prepared.sinks
        self._storage = prepared.run.storage
        self._status = prepared.run.request.reporter(prepared.application)

    def run(self) -> Ended:
        self._prepare_targets()
        attempt = self._options.attempt or new_nonce()
        since_epoch = 0 if self._upgraded is None else self._upgraded.since_epoch
        unclaimed, process = self._prepared.run.journal, identify(self._prepared.application)
        claim = takeover.claim(unclaimed, attempt, process, self._admit, upgrades=since_epoch)
        journal = OwnedJournal(unclaimed)
        try:
            return self._run_claimed(journal, claim)
        except OvertakenError:
            raise
        except Exception as error:
            self._note_failure(journal, error)
            raise

    def _prepare_targets(self) -> None:
        forgotten = self._prepared.decision.state.forgotten_files
        if self._options.forget_files:
            self._forgotten = self._newly_forgotten(forgotten)
        open_root(self._storage)
        if self._prepared.reach is not None:
            self._prepared.reach.check_same(self._storage, self._prepared.run.location)
        for sink in self._sinks.values():
            sink.prepare()

    def _newly_forgotten(self, forgotten: Sequence[str]) -> tuple[str, ...]:
        graph, state = self._plan.graph, self._prepared.decision.state
        logs = load_logs(self._storage, self._options.job_id, graph)
        files = SourceFiles(self._storage, state, graph, logs)
        return newly_forgotten(self._prepared.spark, self._options.forget_files, forgotten, files)

    def _admit(self, state: JobState) -> None:
        self._refuse_overtaken(state)
        if self._options.spare_driver:
            takeover.refuse_living_driver(state, time.time(), self._storage.uri)
        decision = decide(self._storage, self._options, state, self._reconciler)
        if decision != self._prepared.decision:
            raise StaleDecisionError
        if self._prepared.scratch_reason is None:  # a start from scratch ignores the results of earlier runs
            self._reconciliation = decision.reconciliation

    def _refuse_overtaken(self, state: JobState) -> None:
        """Refuse to continue an upgrade if another driver has claimed the job since the previous version ended.

        Raises FencedError.
        """
        if self._upgraded is not None and state.epoch != self._upgraded.last_epoch:
            raise FencedError(
                job_id=state.job_id,
                epoch=state.epoch,
                attempt=state.attempt,
                worker=str(state.worker),
                own_epoch=self._upgraded.last_epoch,
            )

    def _note_failure(self, journal: OwnedJournal, error: Exception) -> None:
        """Journal the status after a failure of this driver: FAILED if Spark's folder is lost, otherwise RESTARTING.

        RESTARTING is journaled only if the journal has no end of this run yet. Errors of the journal are ignored.
        """
        if isinstance(error, SparkFolderLostError):  # the next driver would fail in the same way
            with suppress(CkptError):
                journal.write(StatusChanged(JobStatus.FAILED, time.time(), str(error)))
        elif journal.state.is_held:
            with suppress(CkptError):
                journal.write(StatusChanged(JobStatus.RESTARTING, time.time(), str(error)))

    def _run_claimed(self, journal: OwnedJournal, claim: takeover.TakenOver) -> Ended:
        job_id, mode, graph = self._options.job_id, self._plan.mode, self._plan.graph
        is_anew, restore = self._prepared.scratch_reason is not None, self._prepared.decision.restore
        start = find_recovery_point(
            self._storage, job_id, journal.state, graph, mode, from_scratch=is_anew, requested=restore
        )
        self._record(journal, claim, start)
        self._reconcile(journal)
        self._forget_files(journal)
        frozen, splits = self._freeze(journal), self._freeze_splits(journal)
        logs = load_logs(self._storage, job_id, graph)
        attempts = open_logs(journal, logs, claim.epoch, mode, start.restore, self._resets())  # fences earlier attempts
        void_removed_logs(journal, self._storage, claim.epoch)
        tidy_up(self._storage, job_id, self._first_epoch(claim))
        claimed = ClaimedRun(
            self._prepared, journal, claim, logs, attempts, frozen, splits, start.restore, self._upgraded
        )
        deployment = Deployment(claimed, self._status)
        deployment.make_tasks()
        if claim.resumed:
            deployment.collect_garbage()
        if self._for_workers:
            deployment.hand_over()
            self._report_prepared(journal.state)
            return Ended(None)
        outcome = deployment.run()
        if outcome.status is JobStatus.STOPPED:
            post_run(self._status, journal.state, "comparing files", lambda: self._note_changed(journal, deployment))
        self._finish_run(journal, claim, frozen, deployment.late_files(), outcome)
        if outcome.upgrade is not None:
            version = deployment.version(outcome.upgrade)
            message = (
                f"job {job_id} is at savepoint {journal.state.last_completed}, and resumes as {version.options.job}"
            )
            self._status.report(LineKind.RECONFIGURED, message, journal.state)
            request_outcome = RequestOutcome.completed(f"the job runs as {version.options.job}")
            upgraded = Upgraded(self._first_epoch(claim), claim.epoch, outcome.ran, outcome.upgrade, request_outcome)
            return Ended(outcome, version, upgraded, journal)
        self._status.ended(journal.state, outcome.status, outcome.cause)
        return Ended(outcome)

    def _first_epoch(self, claim: takeover.TakenOver) -> int:
        """Return the first epoch that this driver has claimed. At the start, only requests before it are deleted."""
        return claim.epoch if self._upgraded is None else self._upgraded.since_epoch

    def _record(self, journal: OwnedJournal, claim: takeover.TakenOver, start: RecoveryPoint) -> None:
        """Journal a restore, the plan and the settings. Report the start and all warnings about it as status lines."""
        prepared, plan, options = self._prepared, self._plan, self._options
        if start.restore is not None and not start.is_journaled:
            journal.write(restored_event(start.restore, journal.state, time.time()))
        idle = (
            []
            if prepared.scratch_reason is not None
            else sinks_without_rows(self._after_resets(journal.state), plan.graph)
        )
        schemas, public, rescaled = plan.schemas_json(), options.public_json(), plan.splits.rescaled
        read = prepared.logic.with_read_digests if self._for_workers else prepared.logic.with_missing_digests
        assigned = journal.state.settings
        settings = read(assigned)
        code = prepared.job.code
        edited = [] if prepared.scratch_reason is not None else [*resumes_with_edited_code(journal.state, plan, code)]
        record_plan(journal, options.job_id, plan.graph, plan.definition, schemas, public, rescaled, settings, code)
        self._status.started(journal.state, claim.predecessor, claim.resumed, **prepared.places())
        for other in prepared.logic.changed:
            self._status.report(LineKind.WARNING, str(other), journal.state)
        unused = unused_assignments(assigned, journal.state.settings)
        kept_partitions = keeps_state_partitions(
            plan, prepared.spark, options, journal.state.settings, self._storage.uri
        )
        partitions = suggests_fewer_partitions(plan, prepared.spark, options.conf, prepared.decision.state)
        timers = discards_timers(options, plan)
        self._warn(
            [
                *finished_without_a_file(journal.state),
                *gets_no_rows(idle),
                *looks_up_files(plan, time.time(), options.job_id, self._storage.uri),
                *unused,
                *prepared.kept.notices(),
                *kept_partitions,
                *partitions,
                *edited,
                *timers,
                *hides_partitions(prepared.job),
                *finds_table_empty(self._sinks),
            ],
            journal.state,
        )
        if prepared.scratch_reason is not None:
            reason = f"no checkpoint has completed, and {prepared.scratch_reason}"
            self._status.report(
                LineKind.FROM_SCRATCH, f"job {options.job_id} starts from scratch; {reason}", journal.state
            )

    def _forget_files(self, journal: OwnedJournal) -> None:
        if self._forgotten:
            event = FilesForgotten(self._forgotten, time.time())
            journal.write(event)
            self._status.event(event, journal.state)

    def _reconcile(self, journal: OwnedJournal) -> None:
        if self._reconciliation is not None:
            event = self._reconciliation.event(journal.state.epoch, time.time())
            journal.write(event)
            self._status.event(event, journal.state)

    def _after_resets(self, state: JobState) -> JobState:
        """Return ``state`` with the resets of this run's reconciliation applied. The journal may still lack them."""
        return state if self._reconciliation is None else self._reconciliation.applied(state)

    def _resets(self) -> Mapping[SubtaskId, Reset]:
        return {} if self._reconciliation is None else self._reconciliation.resets

    def _freeze(self, journal: OwnedJournal) -> dict[str, FrozenEnd]:
        prepared, streaming = self._prepared, self._plan.mode == "streaming"
        locations = {source.uid: source.location for source in prepared.job.sources}
        allow_empty = {source.uid for source in prepared.job.sources if source.allow_empty}
        waits = {source.uid for source in prepared.job.sources if source.on_unfinished == "wait"}
        reads, job_id = prepared.bounded_reads(), self._options.job_id
        new_reads = {uid: read for uid, read in reads.items() if uid not in journal.state.frozen}
        frozen = freeze_sources(
            prepared.spark,
            self._storage,
            job_id,
            journal,
            reads,
            locations,
            streaming=streaming,
            allow_empty=allow_empty,
            waits=waits,
            warn=lambda text: self._warn([text], journal.state),
        )
        self._warn(ends_at_once(self._plan, frozen), journal.state)
        live = {uid: read for uid, read in self._plan.reads.items() if uid not in reads}
        self._warn(leaves_out(prepared.spark, {**new_reads, **live}), journal.state)
        self._warn(leaves_out_temporary(prepared.spark, new_reads), journal.state)
        over = {uid: journal.state.frozen.get(uid) for uid in followers(prepared.job.operators) if uid not in frozen}
        ended = {
            uid: frozen_source.path
            for uid, frozen_source in over.items()
            if frozen_source is not None and frozen_source.path is not None
        }
        ends = frozen | {uid: read_end(self._storage, f"{job_id}/{path}") for uid, path in ended.items()}
        return without(ends, journal.state.forgotten_files)

    def _freeze_splits(self, journal: OwnedJournal) -> dict[str, tuple[Split, ...]]:
        planned = self._plan.splits
        frozen = freeze_split_lists(self._storage, self._options.job_id, journal, planned.lists)
        self._warn(lists_that_differ(planned), journal.state)
        return frozen

    def _note_changed(self, journal: OwnedJournal, deployment: Deployment) -> None:
        """Journal and report files that changed after a stopped job read them, unless a task has done so at its end."""
        for change in deployment.changed_files():
            event = SourceFilesChanged(change.uid, change.files, change.count, change.unread, time.time())
            journal.write(event)
            self._status.event(event, journal.state)
        journal.flush()

    def _finish_run(
        self,
        journal: OwnedJournal,
        claim: takeover.TakenOver,
        frozen: Mapping[str, FrozenEnd],
        late: set[str],
        outcome: Outcome,
    ) -> None:
        job_id, graph, spark = self._options.job_id, journal.graph(), self._prepared.spark

        def report(late_files: LateFilesFound) -> None:
            journal.write(late_files)
            self._status.event(late_files, journal.state)
            journal.flush()  # before the files count as reported; nothing flushes the journal later

        def report_late_files() -> None:
            finished_reads, ends = reads_of_finished(self._storage, journal.state)
            reads = {**finished_reads, **self._plan.reads}
            follow = followers(self._prepared.job.operators)
            live = {uid: reads[history] for uid, history in follow.items() if history in reads}
            name_late_files(spark, self._storage, journal.state, reads, {**ends, **frozen}, late, report, live)

        def forget() -> None:  # clients read the answers in the journal, not in the request files
            keep = outcome.status is not JobStatus.FINISHED
            forget_requests(self._storage, job_id, claim.epoch + 1, keep_leave_requests=keep)

        post_run(self._status, journal.state, "naming late files", report_late_files)
        if outcome.upgrade is None:
            post_run(self._status, journal.state, "forgetting requests", forget)
        if outcome.status is JobStatus.FINISHED:
            clean = lambda: clean_up(self._storage, job_id, graph, self._sinks)  # noqa: E731
            post_run(self._status, journal.state, "deleting what the job no longer needs", clean)

    def _report_prepared(self, state: JobState) -> None:
        subtasks = [str(subtask) for subtask in sorted(state.unfinished_assignable())]
        message = f"job {self._options.job_id} is prepared for a JobMaster and workers: {', '.join(subtasks)}"
        self._status.report(LineKind.PREPARED, message, state, subtasks=subtasks)

    def _warn(self, messages: Iterable[str], state: JobState) -> None:
        for message in messages:
            self._status.report(LineKind.WARNING, message, state)
