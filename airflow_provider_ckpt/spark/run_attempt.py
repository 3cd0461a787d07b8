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
from airflow_provider_ckpt.jobmaster.recovery.attempts import new_nonce
from airflow_provider_ckpt.jobmaster.recovery.opened_logs import open_logs, void_left_logs
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler, Reconciliation
from airflow_provider_ckpt.jobmaster.recovery.recovery_point import RecoveryPoint, find_recovery_point, load_logs
from airflow_provider_ckpt.jobmaster.recovery.restore import restored_event
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.journal.errors import FencedError
from airflow_provider_ckpt.journal.events import FilesForgotten, LateFilesFound, SourceFilesChanged, StatusChanged
from airflow_provider_ckpt.journal.kinds.reconciliation import Reset
from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.deployment import ClaimedRun, Deployment
from airflow_provider_ckpt.spark.forgotten_files import SourceFiles, newly_forgotten
from airflow_provider_ckpt.spark.plan.resumable import sinks_without_rows
from airflow_provider_ckpt.spark.plan.splits import lists_that_differ
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
    not_as_given,
    resumes_with_edited_code,
    suggests_fewer_partitions,
)
from airflow_provider_ckpt.spark.preparation.preparation import PreparedRun
from airflow_provider_ckpt.spark.query.sources.empty_sources import leaves_out
from airflow_provider_ckpt.spark.query.sources.freezing import freeze_sources, freeze_split_lists
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd, read_end
from airflow_provider_ckpt.spark.query.sources.frozen_files import without
from airflow_provider_ckpt.spark.query.sources.late_files import name_late_files, of_finished
from airflow_provider_ckpt.spark.query.sources.shared_files import followers
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.storage.root import open_root


@dataclass(frozen=True)
class Ended:
    """The end of one try.

    Attributes:
        outcome: None if the job was prepared for workers, which may now begin.
        version: the version that the job resumes with after an upgrade, as its trial has prepared it.
        upgraded: the upgrade, with the answer for the case that the version can begin.
        journal: the driver may still write to it.
    """

    outcome: Outcome | None
    version: PreparedRun | None = None
    upgraded: Upgraded | None = None
    journal: OwnedJournal | None = None


class MovedError(Exception):
    """A claim that was not made, because the state of the job has changed since the decision."""


class RunAttempt:
    """One try to run a prepared job: steps 2 to 5 of :func:`execute`.

    Args:
        reconciler: finds lost results, as for the decision that the run was prepared for.
        for_workers: only prepare the job for workers.
        upgraded: the upgrade by which this version follows another one in this driver.
    """

    def __init__(
        self, prepared: PreparedRun, reconciler: Reconciler, *, for_workers: bool, upgraded: Upgraded | None
    ) -> None:
        self._prepared, self._reconciler = prepared, reconciler
        self._for_workers, self._upgraded = for_workers, upgraded
        self._reconciliation: Reconciliation | None = None
        self._forgotten: tuple[str, ...] = ()
        """Files that this run gives up."""
        self._options, self._plan, self._sinks = prepared.options, prepared.plan, prepared.sinks
        self._storage = prepared.run.storage
        self._status = prepared.run.request.reporter(prepared.application)

    def run(self) -> Ended:
        self._make_ready()
        attempt = self._options.attempt or new_nonce()
        before = 0 if self._upgraded is None else self._upgraded.since
        unclaimed, process = self._prepared.run.journal, identify(self._prepared.application)
        taken = takeover.claim(unclaimed, attempt, process, self._admit, upgrades=before)
        journal = OwnedJournal(unclaimed)
        try:
            return self._run_claimed(journal, taken)
        except OvertakenError:
            raise
        except Exception as error:
            self._note_failure(journal, error)
            raise

    def _make_ready(self) -> None:
        known = self._prepared.base.state.forgotten_files
        if self._options.forget_files:
            self._forgotten = self._newly_forgotten(known)
        open_root(self._storage)
        if self._prepared.reach is not None:
            self._prepared.reach.check_same(self._storage, self._prepared.run.location)
        for sink in self._sinks.values():
            sink.prepare()

    def _newly_forgotten(self, known: Sequence[str]) -> tuple[str, ...]:
        graph, state = self._plan.graph, self._prepared.base.state
        logs = load_logs(self._storage, self._options.job_id, graph)
        files = SourceFiles(self._storage, state, graph, logs)
        return newly_forgotten(self._prepared.spark, self._options.forget_files, known, files)

    def _admit(self, state: JobState) -> None:
        self._refuse_overtaken(state)
        if self._options.spare_driver:
            takeover.refuse_living_driver(state, time.time(), self._storage.uri)
        decision = decide(self._storage, self._options, state, self._reconciler)
        if decision != self._prepared.base:
            raise MovedError
        if self._prepared.anew is None:  # a start from scratch ignores the results of earlier runs
            self._reconciliation = decision.reconciliation

    def _refuse_overtaken(self, state: JobState) -> None:
        """Refuse an upgrade if another driver has claimed the job between the two versions. That driver keeps it."""
        if self._upgraded is not None and state.epoch != self._upgraded.left:
            raise FencedError(
                job_id=state.job_id,
                epoch=state.epoch,
                attempt=state.attempt,
                worker=str(state.worker),
                own_epoch=self._upgraded.left,
            )

    def _note_failure(self, journal: OwnedJournal, error: Exception) -> None:
        """Journal that this driver failed before it was RUNNING. Ignore errors of the storage."""
        if isinstance(error, SparkFolderLostError):  # the next driver would find the same
            with suppress(CkptError):
                journal.write(StatusChanged(JobStatus.FAILED, time.time(), str(error)))
        elif journal.state.is_held:
            with suppress(CkptError):
                journal.write(StatusChanged(JobStatus.RESTARTING, time.time(), str(error)))

    def _run_claimed(self, journal: OwnedJournal, taken: takeover.TakenOver) -> Ended:
        job_id, mode, graph = self._options.job_id, self._plan.mode, self._plan.graph
        is_anew, asked = self._prepared.anew is not None, self._prepared.base.restore
        start = find_recovery_point(self._storage, job_id, journal.state, graph, mode, is_anew=is_anew, asked=asked)
        self._record(journal, taken, start)
        self._reconcile(journal)
        self._forget_files(journal)
        frozen, splits = self._freeze(journal), self._freeze_splits(journal)
        logs = load_logs(self._storage, job_id, graph)
        attempts = open_logs(journal, logs, taken.epoch, mode, start.restore, self._resets())  # fences earlier attempts
        void_left_logs(journal, self._storage, taken.epoch)
        tidy_up(self._storage, job_id, self._since(taken))
        claimed = ClaimedRun(
            self._prepared, journal, taken, logs, attempts, frozen, splits, start.restore, self._upgraded
        )
        deployment = Deployment(claimed, self._status)
        deployment.make_tasks()
        if taken.resumed:
            deployment.collect_garbage()
        if self._for_workers:
            deployment.hand_over()
            self._tell_prepared(journal.state)
            return Ended(None)
        outcome = deployment.run()
        if outcome.status is JobStatus.STOPPED:
            post_run(self._status, journal.state, "comparing files", lambda: self._note_changed(journal, deployment))
        self._finish_run(journal, taken, frozen, deployment.late_files(), outcome)
        if outcome.upgrade is not None:
            version = deployment.version(outcome.upgrade)
            message = (
                f"job {job_id} is at savepoint {journal.state.last_completed}, and resumes as {version.options.job}"
            )
            self._status.report(LineKind.RECONFIGURED, message, journal.state)
            answer = RequestOutcome.completed(f"the job runs as {version.options.job}")
            upgraded = Upgraded(self._since(taken), taken.epoch, outcome.ran, outcome.upgrade, answer)
            return Ended(outcome, version, upgraded, journal)
        self._status.ended(journal.state, outcome.status, outcome.cause)
        return Ended(outcome)

    def _since(self, taken: takeover.TakenOver) -> int:
        """Return the first epoch of this driver. Requests that were made since then are kept."""
        return taken.epoch if self._upgraded is None else self._upgraded.since

    def _record(self, journal: OwnedJournal, taken: takeover.TakenOver, start: RecoveryPoint) -> None:
        """Journal the decision: a restore, the plan and the settings. Report the start, and warn of surprises."""
        prepared, plan, options = self._prepared, self._plan, self._options
        if start.restore is not None and not start.is_journaled:
            journal.write(restored_event(start.restore, journal.state, time.time()))
        idle = [] if prepared.anew is not None else sinks_without_rows(self._as_reset(journal.state), plan.graph)
        schemas, public, rescaled = plan.schemas_json(), options.public_json(), plan.splits.rescaled
        read = prepared.logic.as_read if self._for_workers else prepared.logic.first_read
        before = journal.state.settings
        settings = read(before)
        code = prepared.job.code
        edited = [] if prepared.anew is not None else [*resumes_with_edited_code(journal.state, plan, code)]
        record_plan(journal, options.job_id, plan.graph, plan.definition, schemas, public, rescaled, settings, code)
        self._status.started(journal.state, taken.before, taken.resumed, **prepared.places())
        for other in prepared.logic.changed:
            self._status.report(LineKind.WARNING, str(other), journal.state)
        given = not_as_given(before, journal.state.settings)
        parts = keeps_state_partitions(plan, prepared.spark, options, journal.state.settings, self._storage.uri)
        fewer = suggests_fewer_partitions(plan, prepared.spark, options.conf, prepared.base.state)
        timers = discards_timers(options, plan)
        self._warn(
            [
                *finished_without_a_file(journal.state),
                *gets_no_rows(idle),
                *looks_up_files(plan, time.time(), options.job_id, self._storage.uri),
                *given,
                *prepared.kept.notices(),
                *parts,
                *fewer,
                *edited,
                *timers,
                *hides_partitions(prepared.job),
                *finds_table_empty(self._sinks),
            ],
            journal.state,
        )
        if prepared.anew is not None:
            why = f"no checkpoint has completed, and {prepared.anew}"
            self._status.report(LineKind.ANEW, f"job {options.job_id} starts from scratch; {why}", journal.state)

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

    def _as_reset(self, state: JobState) -> JobState:
        """Return the state after the resets of this run, which may not be in the journal yet."""
        return state if self._reconciliation is None else self._reconciliation.applied(state)

    def _resets(self) -> Mapping[SubtaskId, Reset]:
        return {} if self._reconciliation is None else self._reconciliation.resets

    def _freeze(self, journal: OwnedJournal) -> dict[str, FrozenEnd]:
        prepared, streaming = self._prepared, self._plan.mode == "streaming"
        locations = {source.uid: source.location for source in prepared.job.sources}
        allow_empty = {source.uid for source in prepared.job.sources if source.allow_empty}
        waits = {source.uid for source in prepared.job.sources if source.on_unfinished == "wait"}
        reads, job_id = prepared.bounded_reads(), self._options.job_id
        is_new = [uid for uid in reads if uid not in journal.state.frozen]
        new = reads.keys() - journal.state.frozen.keys()
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
            tell=lambda text: self._warn([text], journal.state),
        )
        self._warn(ends_at_once(self._plan, frozen), journal.state)
        live = {uid: read for uid, read in self._plan.reads.items() if uid not in reads}
        self._warn(leaves_out(prepared.spark, {**{uid: reads[uid] for uid in new}, **live}), journal.state)
        self._warn(leaves_out_temporary(prepared.spark, {uid: reads[uid] for uid in is_new}), journal.state)
        over = {uid: journal.state.frozen.get(uid) for uid in followers(prepared.job.operators) if uid not in frozen}
        ended = {uid: one.path for uid, one in over.items() if one is not None and one.path is not None}
        known = frozen | {uid: read_end(self._storage, f"{job_id}/{path}") for uid, path in ended.items()}
        return without(known, journal.state.forgotten_files)

    def _freeze_splits(self, journal: OwnedJournal) -> dict[str, tuple[Split, ...]]:
        planned = self._plan.splits
        frozen = freeze_split_lists(self._storage, self._options.job_id, journal, planned.lists)
        self._warn(lists_that_differ(planned), journal.state)
        return frozen

    def _note_changed(self, journal: OwnedJournal, deployment: Deployment) -> None:
        """Report files that producers have changed since they were read.

        This is for a stopped job. A task at its end of data has reported its own files.
        """
        for found in deployment.changed_files():
            event = SourceFilesChanged(found.uid, found.files, found.count, found.unread, time.time())
            journal.write(event)
            self._status.event(event, journal.state)
        journal.flush()

    def _finish_run(
        self,
        journal: OwnedJournal,
        taken: takeover.TakenOver,
        frozen: Mapping[str, FrozenEnd],
        late: set[str],
        outcome: Outcome,
    ) -> None:
        job_id, graph, spark = self._options.job_id, journal.graph(), self._prepared.spark

        def tell(found: LateFilesFound) -> None:
            journal.write(found)
            self._status.event(found, journal.state)
            journal.flush()  # before the files count as reported; nothing flushes the journal later

        def tell_of_late_files() -> None:
            over, ends = of_finished(self._storage, journal.state)
            reads = {**over, **self._plan.reads}
            follow = followers(self._prepared.job.operators)
            live = {uid: reads[one] for uid, one in follow.items() if one in reads}
            name_late_files(spark, self._storage, journal.state, reads, {**ends, **frozen}, late, tell, live)

        def forget() -> None:  # clients read the answers in the journal, not in the request files
            keep = outcome.status is not JobStatus.FINISHED
            forget_requests(self._storage, job_id, taken.epoch + 1, keep_leave_requests=keep)

        post_run(self._status, journal.state, "naming late files", tell_of_late_files)
        if outcome.upgrade is None:
            post_run(self._status, journal.state, "forgetting requests", forget)
        if outcome.status is JobStatus.FINISHED:
            clean = lambda: clean_up(self._storage, job_id, graph, self._sinks)  # noqa: E731
            post_run(self._status, journal.state, "deleting what the job no longer needs", clean)

    def _tell_prepared(self, state: JobState) -> None:
        subtasks = [str(one) for one in sorted(state.unfinished_assignable())]
        message = f"job {self._options.job_id} is prepared for a JobMaster and workers: {', '.join(subtasks)}"
        self._status.report(LineKind.PREPARED, message, state, subtasks=subtasks)

    def _warn(self, messages: Iterable[str], state: JobState) -> None:
        for message in messages:
            self._status.report(LineKind.WARNING, message, state)
