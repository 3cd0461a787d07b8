"""Access to a job from outside its driver: its state, and requests that end or change it.

The client needs access to the root but not to the cluster, and imports neither Spark nor Airflow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.errors import JobWaitTimeoutError
from airflow_provider_ckpt.client.job_answer import JobAnswer, advice
from airflow_provider_ckpt.client.job_view import JobView, Root, as_storage
from airflow_provider_ckpt.errors import RequestFailedError, RequestFailure, RequestRefusedError, RequestUnansweredError
from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.loading.loading import parts_of
from airflow_provider_ckpt.jobmaster.applied_changes import is_changed, is_decided
from airflow_provider_ckpt.journal import journal as journals
from airflow_provider_ckpt.journal.request_files import pending_requests, withdraw_leaves, write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_request import (
    DrainRequest,
    JobRequest,
    ReconfigureRequest,
    StopRequest,
    UpgradeRequest,
    asks_to_exit,
)
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.root import read_root

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration, ReconfigurationPreview
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletedJob
    from airflow_provider_ckpt.journal.events import CheckpointReleased


def list_jobs(root: Root, *, deleted: bool = False) -> list[JobState]:
    """Return the state of every job under the root, ordered by id. An unreadable journal is described in ``damage``.

    ``deleted``: True to include DELETED jobs, of which little data remains.

    Raises NoRootError, ForeignRootError, NewerFormatError and the storage's errors.
    """
    states = journals.list_jobs(read_root(as_storage(root)))
    return [state for state in states if deleted or state.status is not JobStatus.DELETED]


class JobClient(JobView):
    """One job under a checkpoint root. Raises InvalidJobIdError.

    Args:
        root: URI of the checkpoint root, or a :class:`Location` with storage options. An open storage gives
            :meth:`release` and :meth:`delete` no storage options for the sinks.
    """

    # ---- requests to the driver

    def send(self, request: JobRequest, *, epoch: int | None = None) -> JobRequest:
        """Write a request for the driver. Return the request with its name and epoch, without a wait for an answer.

        The other methods check the job's state before they send a request that needs a certain state.

        Args:
            epoch: The epoch of the driver; None to read it from the journal.

        Raises the errors of :meth:`stop`.
        """
        driver_epoch = self._running_epoch(request.verb) if epoch is None else epoch
        return write_request(self._storage(), self.job_id, replace(request, epoch=driver_epoch))

    def stop(self, *, epoch: int | None = None, exit_if_it_fails: bool = False) -> JobRequest:
        """Request a stop: a savepoint, its release, and the driver's exit. Return at once.

        The next run resumes from the savepoint. After a failed stop the job continues, unless ``exit_if_it_fails`` is
        True.

        Args:
            epoch: The epoch of the driver; None to read it from the journal.
            exit_if_it_fails: True if the driver must exit even if the stop fails, because its process is about to end.

        Raises NoSuchJobError, NoRootError, and RequestFailedError (NOT_RUNNING).
        """
        return self.send(StopRequest(exit_if_it_fails), epoch=epoch)

    def drain(self, *, at_once: bool = False, discard_timers: bool = False) -> JobRequest:
        """Request a drain: the job reads its remaining input, takes the final checkpoint and finishes. Return at once.

        Args:
            at_once: True to end live sources at their current positions, without reading their waiting input.
            discard_timers: True to drain even if that discards state that waits for timers of processing time.

        Raises the errors of :meth:`stop`, and RequestFailedError (TIMERS_WAIT) if ``discard_timers`` is needed.
        """
        if not discard_timers and (waiting := self.state().with_timers()):
            raise RequestRefusedError(
                "a drain of job {job_id!r} discards state that waits for timers of processing time, because they fire "
                "only while the query runs: {vertices}. The driver got no request. Let the timers fire, or stop the "
                "job to keep the state for the next run. To discard the state, add --discard-timers (in Python "
                "discard_timers=True)",
                reason=RequestFailure.TIMERS_WAIT,
                job_id=self.job_id,
                vertices=", ".join(waiting),
            )
        return self.send(DrainRequest(at_once))

    def rescale(self, uid: str, parallelism: int) -> JobRequest:
        """Request that ``parallelism`` subtasks read source ``uid``, which must have splits. Return at once.

        Only the consumers of the source pause, for a moment. Later runs use this number until the job declares another
        number.

        Raises the errors of :meth:`stop`, and RequestFailedError (NOT_RESCALABLE).
        """
        state = self.state()
        sources = [vertex.uid for vertex in state.graph().vertices if vertex.splits]
        if uid not in sources or problem_of("parallelism", parallelism):
            names = ", ".join(sources) or "it has none"
            raise RequestRefusedError(
                "job {job_id!r}: {uid!r} cannot be read by {parallelism} subtasks. While a job runs its sources with "
                "splits can be rescaled, to 1 or more: {known}",
                reason=RequestFailure.NOT_RESCALABLE,
                job_id=self.job_id,
                uid=uid,
                parallelism=parallelism,
                known=names,
            )
        return self.send(ReconfigureRequest({uid: VertexSettings(parallelism=parallelism)}))

    def reconfigure(self, changes: Reconfiguration) -> JobRequest:
        """Request other settings for queries while they run: limits, state partitions, scheduler share, functions.

        Return at once. Only the named queries pause, for a moment. Later runs use these settings until another change
        replaces them.

        Raises the errors of :meth:`stop`, and RequestFailedError (NOT_RECONFIGURABLE).
        """
        self._previewed(self.state(), changes)
        return self.send(ReconfigureRequest(changes.changes))

    def upgrade(self, job: str | None = None, *, allow_non_restored_state: bool = False) -> JobRequest:
        """Request that the driver continues with another version of the job's code. Return at once.

        The version may differ from the running job in the ways that are allowed between two runs. The driver loads and
        tries the version while the job runs. The whole job then pauses for a moment, at a savepoint.

        Args:
            job: The reference of the version: a file or module where the driver runs. None reads the current file
                again.
            allow_non_restored_state: True to allow a version that lacks operators of the job.

        Raises the errors of :meth:`stop`, and RequestFailedError (NOT_UPGRADABLE).
        """
        self._refuse_upgrade(self.state())
        if job is not None:
            parts_of(job)
        return self.send(UpgradeRequest(job, allow_non_restored_state))

    def _refuse_upgrade(self, state: JobState) -> None:
        problem = None
        if state.deployment:
            problem = "workers run it, each with a file of its own"
        elif state.is_batch:
            problem = "it is in batch mode, and takes no savepoint before its end"
        if problem is not None:
            raise RequestRefusedError(
                "job {job_id!r} cannot continue as another version while it runs: {problem}. Stop it, and run the new "
                "version: docs/changes.md lists what may differ",
                reason=RequestFailure.NOT_UPGRADABLE,
                job_id=self.job_id,
                problem=problem,
            )

    def preview(self, changes: Reconfiguration) -> ReconfigurationPreview:
        """Return what :meth:`reconfigure` would pause and change, from the journal alone.

        Raises the errors of :meth:`state`, and RequestFailedError: NOT_RECONFIGURABLE, NOT_RUNNING (a FINISHED or
        deleted job).
        """
        state = self.state()
        if state.has_finished or state.deletion is not None:
            raise self._not_running("reconfigure", state, state.status)
        return self._previewed(state, changes)

    @staticmethod
    def _previewed(state: JobState, changes: Reconfiguration) -> ReconfigurationPreview:
        from airflow_provider_ckpt.client.reconfiguration_preview import preview

        for uid, names in changes.taken_back.items():
            problem = (
                f"{', '.join(sorted(names))} can be taken back at the next run only: stop the job, and use --next-run "
                "(JobClient.assign_for_next_run). While the job runs, give another value"
            )
            raise NotReconfigurableError(uid=uid, problem=problem)
        return preview(state, changes.changes)

    def runs_with(self, changes: Reconfiguration) -> bool:
        """Return True if the running job, or else the next run, has all ``changes``.

        Raises the errors of :meth:`state`.
        """
        return is_changed(self.state(), changes.changes)

    def changes_in_progress(self) -> list[JobRequest]:
        """Return the change requests to the current driver that have no outcome. Raises the errors of :meth:`state`."""
        state = self.state()
        since = state.deployment or state.driver_since or state.epoch
        requests = pending_requests(self._storage(), self.job_id, state.epoch, state.outcomes, since)
        return [request for request in requests if request.is_change]

    def is_asked_to_leave(self, epoch: int) -> bool:
        """Return True if the driver of ``epoch`` was requested to stop because its process must end.

        The request is ``stop(exit_if_it_fails=True)``. The result stays True until the next driver claims the job, even
        after the driver has answered the request.
        """
        state = self.read_state()
        since = state.driver_since or epoch if state.epoch == epoch else epoch
        return any(map(asks_to_exit, pending_requests(self._storage(), self.job_id, epoch, (), since)))

    def withdraw_leaves(self, epoch: int) -> int:
        """Delete the requests that :meth:`is_asked_to_leave` finds, for drivers up to ``epoch``.

        Return the number of deleted requests. The job then continues. A request that the driver has accepted is carried
        out unless the driver dies first.
        """
        return withdraw_leaves(self._storage(), self.job_id, epoch)

    def answer(self, request: JobRequest, timeout: float | None = None) -> JobAnswer:
        """Wait for the outcome of a request, at most ``timeout`` seconds; None for no limit.

        The wait ends when the job has ended, when the driver has refused the request, or when the request has failed
        and the job continues. For a change it also ends when the change is applied.

        Raises RequestFailedError: NOT_ENDED, NOT_RESCALED, NOT_RECONFIGURED or NOT_UPGRADED after the timeout, and
        OVERTAKEN if another driver has taken over the job.
        """
        last_seen = JobState(self.job_id)

        def is_answered(state: JobState) -> bool:
            nonlocal last_seen
            last_seen, outcome = state, state.outcomes.get(request.name)
            if outcome is None and not _is_accepted(request, state):
                if is_decided(state, request):
                    return True
                raise RequestUnansweredError(
                    "job {job_id!r} was taken over by epoch {epoch} while epoch {asked} was asked to {kind}; a "
                    "request is for one epoch only: ask again",
                    reason=RequestFailure.OVERTAKEN,
                    job_id=self.job_id,
                    kind=request.verb,
                    epoch=state.epoch,
                    asked=request.epoch,
                )
            return not state.is_held or (outcome is not None and not (request.ends_job and outcome.is_carried_out))

        try:
            return JobAnswer(request, self.wait(is_answered, timeout))
        except JobWaitTimeoutError:
            raise _timeout_error(request, last_seen, timeout) from None

    # ---- without a driver

    def assign_for_next_run(self, changes: Reconfiguration, *, driver_is_gone: bool = False) -> JobState:
        """Change functions or settings for the next run, while no driver runs the job. Return the new state.

        This helps if a function fails on some rows, and ends the job before its driver can answer a request. No change
        is tried: the next run reads the file and refuses unfit functions. Unlike requests, this method can also take
        changes back (:meth:`Reconfiguration.take_back`), and repartition state. See :meth:`release` for
        ``driver_is_gone``.

        Raises the errors of :meth:`state`, JobDeletedError, and RequestFailedError: STILL_RUNNING, or NOT_FOR_NEXT_RUN
        for a change that the next run cannot have.
        """
        from airflow_provider_ckpt.jobmaster.next_run_change import NextRunChange

        self.state()
        changed, back = changes.changes, changes.taken_back
        return NextRunChange(self._storage(), self.job_id, changed, back, driver_is_gone=driver_is_gone).assign()

    def release(self, job: Job, *, driver_is_gone: bool = False) -> list[CheckpointReleased]:
        """Release completed checkpoints of a job that no driver runs. Return the releases; empty if all were released.

        Needs no Spark. The next run resumes the job as before.

        Args:
            job: The definition with which the job ran. Only its sinks are used.
            driver_is_gone: True to assert that the driver and all workers are gone, if this host cannot check that. A
                driver that is still alive is fenced and ends.

        Raises the errors of :meth:`state`, JobRunsError, JobDeletedError, InvalidInputError, DefinitionChangedError,
        ReleaseHeldError, and a sink's errors. If one sink fails, the other sinks have released, and the next call
        retries the failed sink.
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
        """Delete the data of an ended job under the root, and its staged output; never its released output.

        Deletion is final: every later run with this job id is refused. Needs no Spark. A FINISHED job needs no flag
        unless it has persisted results. Another call for a deleted job, or after an interruption, deletes the rest.

        Args:
            job: The job's definition. Only its sinks are used. For file sinks with the root's storage options it is not
                needed, because the journal records them.
            unfinished: True to delete also a STOPPED or FAILED job. The state that its next run would resume is lost.
            abandoned: True to delete also a job that is RESTARTING or has lost its driver. No later run can resume the
                job. A job whose driver is alive is refused.
            discard_unreleased: True to delete also a job with completed but unreleased output. The output is lost
                (:meth:`release` would release it).
            keep_staged: True to keep the staged output in the targets of the job's sinks.
            persisted: True to delete also a FINISHED job with persisted results (``persist=True``), and the results.

        Raises the errors of :meth:`state`, DeletionRefusedError, CorruptJournalError, and FencedError if another
        process has taken over the job.
        """
        from airflow_provider_ckpt.client.sinks_of_job import sinks_of_job
        from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_journal
        from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletionTerms, JobDeletion

        root = read_root(self._storage())
        check_journal(root, self.read_state())
        self.state()
        terms = DeletionTerms(unfinished, abandoned, discard_unreleased, keep_staged, persisted)
        return JobDeletion(root, self.job_id, terms, sinks_of_job(job, self._location())).run()

    def _not_running(self, kind: str, state: JobState, status: str | None) -> RequestRefusedError:
        return RequestRefusedError(
            "Job {job_id!r} cannot be asked to {kind}: its status is {status}, no driver would answer. {advice}.",
            reason=RequestFailure.NOT_RUNNING,
            job_id=self.job_id,
            kind=kind,
            status=status,
            advice=advice(kind, state),
        )

    def _running_epoch(self, kind: str) -> int:
        state = self.state()
        if not state.is_held:
            raise self._not_running(kind, state, state.status)
        if not state.deployment and is_alive(state.worker) is False:  # else the next JobMaster takes the request (W20)
            status = f"{state.status or 'not RUNNING yet'}, but its driver is gone"
            raise self._not_running(kind, state, status)
        return state.epoch


def _is_accepted(request: JobRequest, state: JobState) -> bool:
    """Return True if the current driver answers the request.

    The request must be for the current epoch, or for an earlier epoch of the same deployment or driver.
    """
    since = state.deployment or state.driver_since
    return state.epoch == request.epoch or bool(since and request.epoch >= since)


def _timeout_error(request: JobRequest, state: JobState, seconds: float | None) -> RequestFailedError:
    data = {"job_id": state.job_id, "request": request.name, "seconds": seconds}
    if request.ends_job:
        answer = "has taken" if request.name in state.answered else "has not answered"
        return RequestUnansweredError(
            "job {job_id!r} has not ended within {seconds:g} s of the {kind} request {request}, which the driver of "
            "epoch {epoch} {answer}; wait longer (`ckpt`: --timeout), or check the driver. If it is gone, the next "
            "run starts from the last completed checkpoint and ignores the request",
            reason=RequestFailure.NOT_ENDED,
            **data,
            kind=request.kind,
            epoch=request.epoch,
            answer=answer,
        )
    if isinstance(request, UpgradeRequest):
        return RequestUnansweredError(
            "job {job_id!r} does not run as the other version {seconds:g} s after request {request}; wait longer "
            "(`ckpt`: --timeout), or check the driver",
            reason=RequestFailure.NOT_UPGRADED,
            **data,
        )
    if isinstance(request, ReconfigureRequest) and (rescale := request.rescale) is not None:
        uid, parallelism = rescale
        return RequestUnansweredError(
            "{uid!r} of job {job_id!r} is not read by {parallelism} subtasks {seconds:g} s after request {request}; "
            "wait longer (`ckpt`: --timeout), or check the driver",
            reason=RequestFailure.NOT_RESCALED,
            **data,
            uid=uid,
            parallelism=parallelism,
        )
    return RequestUnansweredError(
        "job {job_id!r} has not applied request {request} after {seconds:g} s; wait longer (`ckpt`: --timeout), or "
        "check the driver",
        reason=RequestFailure.NOT_RECONFIGURED,
        **data,
    )
