"""The decision of a driver about a job before the driver takes the job over.

The decision follows from the journal alone. The driver decides before it prepares the job, because planning takes
seconds and a refusal must come before anything is written. The claim decides again, from the state that it follows. If
the two decisions differ, the driver does not claim the job, and prepares it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler, Reconciliation
from airflow_provider_ckpt.jobmaster.recovery.restore import RestorePoint, nothing_is_covered, restore_point, resumes
from airflow_provider_ckpt.journal.kinds.sources import SourceFrozen
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.spark.query.finished_work import FinishedWork
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class Decision:
    """The answers from the journal that decide how a driver continues the job.

    Attributes:
        finished: True if nothing is left to run.
        restore: the checkpoint to restore; None: the job resumes after the published batches.
        may_start_from_scratch: True if no checkpoint covers anything, so that nothing was ever released. If the
            definition does not fit the previous one, the job may start from scratch.
        graph: the current graph, or that of the last run. It may change while a driver prepares the job (R21).
    """

    is_new: bool
    finished: bool
    restore: RestorePoint | None
    done: FinishedWork
    may_start_from_scratch: bool
    graph: JobGraph
    rescaled: Mapping[str, int]
    settings: Settings
    scratch_reason: str | None
    """Why the options discard the previous runs, although they could be kept; None if they are kept."""
    reconciliation: Reconciliation | None
    """Subtasks of a BATCH job that run again, because results that others must read are gone."""
    split_lists: Mapping[str, SourceFrozen]
    """Source -> its frozen list of splits. A list that the previous driver freezes meanwhile changes the decision."""
    compared: tuple[JobDefinition | None, int]
    """The definition of the last run, and the epoch of the last start from scratch. Another driver may change both."""
    state: JobState = field(compare=False, repr=False)
    """The state that the decision follows from, after the resets of ``reconciliation``."""


def decide(storage: Storage, options: RunOptions, state: JobState, reconciler: Reconciler | None = None) -> Decision:
    """Decide how to continue the job. Write nothing.

    Args:
        reconciler: finds lost results in batch mode. A driver uses the same one for all of its decisions. A worker
            gives None, because its planner has decided already.

    Raises CorruptJournalError, JobDeletedError, InvalidInputError, RestoreRefusedError.
    """
    check_journal(storage, state)
    state.refuse_deleted()
    if state.status is JobStatus.FAILED and not options.resume_failed:
        raise InvalidInputError(
            "job {job_id!r} failed terminally ({cause}); a retry would fail in the same way: fix the cause, then "
            "resume the job with --resume-failed (in Airflow: clear the task)",
            job_id=options.job_id,
            cause=state.cause,
        )
    is_resumed = resumes(storage, options.job_id, options.restore, state)
    finished = state.status is JobStatus.FINISHED and is_resumed
    reason = reconciliation = None
    if reconciler is not None and is_resumed and not finished:
        reason = _not_recovered(options, state)
        reconciliation = None if reason else reconciler.reconcile(state)
    if reconciliation is not None:
        state = reconciliation.applied(state)
    graph = state.graph()
    return Decision(
        is_new=state.created is None,
        finished=finished,
        restore=None if is_resumed else restore_point(storage, options.job_id, options.restore, state),
        # going back to a checkpoint may bring back operators that have finished since
        done=FinishedWork.of(state) if is_resumed else FinishedWork.for_restore(state),
        may_start_from_scratch=state.plan is not None and nothing_is_covered(state),
        graph=graph,
        rescaled={} if state.plan is None else state.plan.rescaled,
        settings=state.settings,
        scratch_reason=reason,
        reconciliation=reconciliation,
        split_lists={
            vertex.uid: state.frozen[vertex.uid]
            for vertex in graph.vertices
            if vertex.splits and vertex.uid in state.frozen
        },
        compared=(state.definition, state.anew_epoch),
        state=state,
    )


def _not_recovered(options: RunOptions, state: JobState) -> str | None:
    """Return why a BATCH job starts from scratch: ``execution.batch.job-recovery.enabled`` is false (FLIP-383).

    Return None if a checkpoint covers something, because the job's output may be released. Return None for a stopped
    job, because its user wants to resume it.
    """
    if options.batch_recovery or not state.is_batch:
        return None
    if state.status is JobStatus.STOPPED or not nothing_is_covered(state):
        return None
    return "batch_recovery is off"
