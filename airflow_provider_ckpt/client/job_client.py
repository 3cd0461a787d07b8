"""A job from outside: what its journal says, and how it is asked to end, or to change.

The command line, the hook, the operator, the sensor and the trigger see and end jobs through this, and so may any other
program. It takes access to the root, and none to the cluster; neither Spark nor Airflow is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.errors import (
    JobNotEndedError,
    JobNotRunningError,
    JobWaitTimeoutError,
    NotReconfiguredError,
    NotRescalableError,
    NotRescaledError,
    NotUpgradableError,
    NotUpgradedError,
    RequestOvertakenError,
    TimersWaitError,
)
from airflow_provider_ckpt.client.job_request import JobAnswer, JobRequest, advice
from airflow_provider_ckpt.client.job_view import JobView, Root, opened
from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.loading import parts_of
from airflow_provider_ckpt.jobmaster.decided import is_changed
from airflow_provider_ckpt.journal import journal as journals
from airflow_provider_ckpt.journal.requests import (
    Changes,
    RescaleRequest,
    UpgradeRequest,
    pending_requests,
    withdraw_leaves,
    write_request,
)
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.storage.root import read_root

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.reconfiguration import Reconfiguration, ReconfigurationPreview
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.jobmaster.deletion import DeletedJob
    from airflow_provider_ckpt.journal.events import CheckpointReleased


def list_jobs(root: Root, *, deleted: bool = False) -> list[JobState]:
    """The state of every job under the root, by id. A journal that cannot be read says so in ``damage``.

    ``deleted``: those that are DELETED, too, of which little is left. Raises NoRootError, ForeignRootError,
    NewerFormatError and the storage's errors.
    """
    found = journals.list_jobs(read_root(opened(root)))
    return [state for state in found if deleted or state.status is not JobStatus.DELETED]


class JobClient(JobView):
    """One job under a checkpoint root.

    :param root: URI of the checkpoint root, a :class:`Location` if it takes storage options, or its storage (then
        :meth:`release` and :meth:`delete` have no options for the sinks).
    :param job_id: the job. Raises InvalidJobIdError.
    """

    # ---- asking the driver

    def stop(self, *, epoch: int | None = None, leaves: bool = False) -> JobRequest:
        """Ask the job's driver to stop: savepoint, release, exit; the next run goes on from there. Does not wait.

        A stop that fails leaves the job running, unless it ``leaves`` (the driver's process is about to go).
        ``epoch``: of a driver that the caller knows of; then the journal is not read. Raises NoSuchJobError,
        NoRootError, JobNotRunningError.
        """
        return self._ask("stop", epoch, leaves=leaves)

    def drain(self, *, at_once: bool = False, discard_timers: bool = False) -> JobRequest:
        """Ask the job's driver to drain: read what is there, take the final checkpoint, FINISHED. As :meth:`stop`.

        ``at_once``: live sources end where they stand; what waits in them is not read. ``discard_timers``: also if
        state may wait for timers of processing time, which a drain discards. Raises TimersWaitError without it.
        """
        if not discard_timers and (waiting := self.state().with_timers()):
            raise TimersWaitError(job_id=self.job_id, vertices=", ".join(waiting))
        return self._ask("drain", None, at_once=at_once)

    def rescale(self, uid: str, parallelism: int) -> JobRequest:
        """Ask the job's driver to have ``parallelism`` subtasks read source ``uid``, which has splits. Only who reads
        the source stands still for it, for a moment; later runs go by it until the job declares another number. Does
        not wait. Raises as :meth:`stop`, and NotRescalableError."""
        state = self.state()
        known = [vertex.uid for vertex in state.graph().vertices if vertex.splits]
        if uid not in known or problem_of("parallelism", parallelism):
            told = ", ".join(known) or "it has none"
            raise NotRescalableError(job_id=self.job_id, uid=uid, parallelism=parallelism, known=told)
        return self._ask("rescale", None, rescale=RescaleRequest(uid, parallelism))

    def reconfigure(self, changes: Reconfiguration) -> JobRequest:
        """Ask the job's driver to run queries with other limits, another cut of their state, another share of the
        cluster, or other functions. Only the queries that are named stand still for it, for a moment; later runs go by
        it, too, until it is changed again. Does not wait. Raises as :meth:`stop`, and NotReconfigurableError."""
        self._previewed(self.state(), changes)
        return self._ask("reconfigure", None, changes=changes.changes)

    def upgrade(self, job: str | None = None, *, allow_non_restored_state: bool = False) -> JobRequest:
        """Ask the job's driver to go on as another version of the job: with operators that come and go, other settings
        of them, other functions, as between two runs. The version is loaded and tried while the job runs; the whole job
        stands still for a moment, at a savepoint. Does not wait.

        ``job``: its reference, a file or module where the driver runs; None: that of now, read anew.
        ``allow_non_restored_state``: also without operators that the job has. Raises as :meth:`stop`, and
        NotUpgradableError."""
        self._refuse_upgrade(self.state())
        if job is not None:
            parts_of(job)
        return self._ask("upgrade", None, upgrade=UpgradeRequest(job, allow_non_restored_state))

    def _refuse_upgrade(self, state: JobState) -> None:
        definition = None if state.plan is None else state.plan.definition
        problem = None
        if state.deployment:
            problem = "workers run it, each with a file of its own"
        elif definition is not None and definition.mode == "batch":
            problem = "it is in batch mode, and takes no savepoint before its end"
        if problem is not None:
            raise NotUpgradableError(job_id=self.job_id, problem=problem)

    def preview(self, changes: Reconfiguration) -> ReconfigurationPreview:
        """What :meth:`reconfigure` would come to: who would stand still, and what would be another one. From the
        journal alone; nothing is asked. Raises as :meth:`state`, NotReconfigurableError, and JobNotRunningError for a
        job that nobody runs again: FINISHED, or deleted."""
        state = self.state()
        if state.has_finished or state.deletion is not None:
            raise JobNotRunningError(
                job_id=self.job_id, kind="reconfigure", status=state.status, advice=advice("reconfigure", state)
            )
        return self._previewed(state, changes)

    @staticmethod
    def _previewed(state: JobState, changes: Reconfiguration) -> ReconfigurationPreview:
        from airflow_provider_ckpt.client.reconfiguration import preview

        for uid, names in changes.taken_back.items():
            problem = (
                f"{', '.join(sorted(names))} can be taken back at the next run only: stop the job, and use --next-run "
                "(JobClient.assign_for_next_run). While the job runs, give another value"
            )
            raise NotReconfigurableError(uid=uid, problem=problem)
        return preview(state, changes.changes)

    def runs_with(self, changes: Reconfiguration) -> bool:
        """Whether all of it is decided already: the job runs so, or will when it is run again. Raises as
        :meth:`state`."""
        return is_changed(self.state(), changes.changes)

    def changes_in_progress(self) -> list[JobRequest]:
        """What was asked of the job's driver of now that changes the job, and has no last word yet. Raises as
        :meth:`state`."""
        state = self.state()
        since = state.deployment or state.driver_since or state.epoch
        asked = pending_requests(self._storage(), self.job_id, state.epoch, state.outcomes, since)
        return [
            JobRequest(self.job_id, one.kind, one.epoch, one.name, one.rescale, one.changes, one.upgrade)
            for one in asked
            if one.is_change
        ]

    def is_asked_to_leave(self, epoch: int) -> bool:
        """Whether somebody has asked the driver of ``epoch`` to stop because its process has to go (:meth:`stop` with
        ``leaves``). Until the next driver comes, also when it has been answered."""
        state = self.look()
        since = state.driver_since or epoch if state.epoch == epoch else epoch
        return any(one.leaves for one in pending_requests(self._storage(), self.job_id, epoch, (), since))

    def withdraw_leaves(self, epoch: int) -> int:
        """Take back the requests that :meth:`is_asked_to_leave` tells of, up to the driver of ``epoch``: the job is to
        go on. One that its driver has taken takes place nevertheless, unless it dies before. How many there were."""
        return withdraw_leaves(self._storage(), self.job_id, epoch)

    def answer(self, request: JobRequest, timeout: float | None = None) -> JobAnswer:
        """Wait until the job has ended, or its driver has said that it does not: what was asked for was refused, or it
        failed and the job goes on; of a change until it took place, too.

        ``timeout``: seconds, after which it raises JobNotEndedError, NotRescaledError, or NotReconfiguredError; None to
        wait as long as it takes. Raises RequestOvertakenError when another driver took the job.
        """
        seen = JobState(self.job_id)

        def is_answered(state: JobState) -> bool:
            nonlocal seen
            seen, told = state, state.outcomes.get(request.name)
            if told is None and not _is_for(request, state):
                if request.is_decided(state):
                    return True
                raise RequestOvertakenError(
                    job_id=self.job_id, kind=request.kind, epoch=state.epoch, asked=request.epoch
                )
            return not state.is_held or (told is not None and not (request.ends_job and told.took_place))

        try:
            return JobAnswer(request, self.wait(is_answered, timeout))
        except JobWaitTimeoutError:
            if request.rescale is not None:
                raise _not_rescaled(request, request.rescale, timeout) from None
            if request.upgrade is not None:
                raise NotUpgradedError(job_id=self.job_id, request=request.name, seconds=timeout) from None
            if not request.ends_job:
                raise NotReconfiguredError(job_id=self.job_id, request=request.name, seconds=timeout) from None
            raise JobNotEndedError(
                job_id=self.job_id,
                kind=request.kind,
                request=request.name,
                seconds=timeout,
                epoch=request.epoch,
                answer="has taken" if request.name in seen.answered else "has not answered",
            ) from None

    # ---- without a driver

    def assign_for_next_run(self, changes: Reconfiguration, *, driver_is_gone: bool = False) -> JobState:
        """Give operators other functions, or those that the job declares, while nobody runs the job: its next run goes
        by them. A function that fails with the rows it gets ends the job before its driver could be asked. Nothing is
        tried: the next run reads the file as it is then, and refuses what does not fit. Settings can be taken back
        (:meth:`Reconfiguration.take_back`), and state be cut into another number of parts. Returns the state of then.

        ``driver_is_gone``: as of :meth:`release`. Raises as :meth:`state`, JobStillRunsError, JobDeletedError, and
        NotForNextRunError for anything else."""
        from airflow_provider_ckpt.jobmaster.next_run_logic import NextRunLogic

        self.state()
        changed, back = changes.changes, changes.taken_back
        return NextRunLogic(self._storage(), self.job_id, changed, back, driver_is_gone=driver_is_gone).assign()

    def release(self, job: Job, *, driver_is_gone: bool = False) -> list[CheckpointReleased]:
        """Release what the job has completed, when no driver lives that would. Needs no Spark, and leaves the job as it
        was: its next run goes on. [] if there is nothing to release.

        ``job``: its definition, as it ran; only the sinks are used. ``driver_is_gone``: say so of a driver that cannot
        be seen from here, and of workers; one that lives after all is overtaken, and ends. Raises as :meth:`state`,
        JobHasDriverError, JobHasWorkersError, JobDeletedError, SinksMissingError, DefinitionChangedError,
        ReleaseHeldError, and what a sink fails with: the other sinks are released then, and the rest can be asked for
        again.
        """
        from airflow_provider_ckpt.jobmaster.roll_forward import RollForward

        self.state()
        return RollForward(self._storage(), job, self.job_id, self._location(), driver_is_gone=driver_is_gone).run()

    def delete(
        self,
        job: Job | None = None,
        *,
        unfinished: bool = False,
        abandoned: bool = False,
        discard_unreleased: bool = False,
        keep_staged: bool = False,
        persisted: bool = False,
    ) -> DeletedJob:
        """Delete what a job that is over has under the root, and what it has staged for its sinks; never what it
        released. For good: the job's id stays taken, and is refused to every later run. Needs no Spark.

        A FINISHED job is deleted without more words, unless it keeps results for others. Asked again for one that is
        deleted already, or was interrupted, it deletes what is left. Raises as :meth:`state`, JobNotOverError,
        UnreleasedOutputError, PersistedResultsError, CorruptJournalError, StagedOutputLeftError, FencedError if it was
        overtaken.

        :param job: its definition, if its sinks are others than file sinks with the root's storage options: those are
            known from the journal. Only the sinks are used.
        :param unfinished: also a job that is STOPPED or FAILED: what its next run would go on with is lost.
        :param abandoned: also one that is RESTARTING, or whose driver was lost, if nobody runs it or is going to. One
            whose driver is seen alive is refused.
        :param discard_unreleased: also if it has completed what is not released (:meth:`release` does): that is lost.
        :param keep_staged: leave alone what is staged in the targets of its sinks.
        :param persisted: also one that is FINISHED and keeps results for others (``persist=True``): they go, too.
        """
        from airflow_provider_ckpt.client.sinks_of_job import sinks_of_job
        from airflow_provider_ckpt.jobmaster.deletion import JobDeletion
        from airflow_provider_ckpt.jobmaster.deletion_terms import DeletionTerms
        from airflow_provider_ckpt.jobmaster.log_checks import check_journal

        root = read_root(self._storage())
        check_journal(root, self.look())
        self.state()
        terms = DeletionTerms(unfinished, abandoned, discard_unreleased, keep_staged, persisted)
        return JobDeletion(root, self.job_id, terms, sinks_of_job(job, self._location())).run()

    def _ask(
        self,
        kind: str,
        epoch: int | None,
        *,
        leaves: bool = False,
        at_once: bool = False,
        rescale: RescaleRequest | None = None,
        changes: Changes | None = None,
        upgrade: UpgradeRequest | None = None,
    ) -> JobRequest:
        asked, storage = self._running_epoch(kind) if epoch is None else epoch, self._storage()
        name = write_request(
            storage,
            self.job_id,
            kind,
            asked,
            leaves=leaves,
            at_once=at_once,
            rescale=rescale,
            changes=changes,
            upgrade=upgrade,
        )
        return JobRequest(self.job_id, kind, asked, name, rescale, changes or {}, upgrade)

    def _running_epoch(self, kind: str) -> int:
        state = self.state()
        if not state.is_held:
            raise JobNotRunningError(job_id=self.job_id, kind=kind, status=state.status, advice=advice(kind, state))
        if not state.deployment and is_alive(state.worker) is False:  # else the next JobMaster takes the request (W20)
            gone = f"{state.status or 'not RUNNING yet'}, but its driver is gone"
            raise JobNotRunningError(job_id=self.job_id, kind=kind, status=gone, advice=advice(kind, state))
        return state.epoch


def _is_for(request: JobRequest, state: JobState) -> bool:
    """Whether who has the job takes the request: its JobMaster, or one that came after it in the same deployment, or in
    the same driver by an upgrade."""
    since = state.deployment or state.driver_since
    return state.epoch == request.epoch or bool(since and request.epoch >= since)


def _not_rescaled(request: JobRequest, asked: RescaleRequest, seconds: float | None) -> NotRescaledError:
    return NotRescaledError(
        job_id=request.job_id, uid=asked.uid, parallelism=asked.parallelism, request=request.name, seconds=seconds
    )
