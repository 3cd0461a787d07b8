"""The decision of a driver how to continue a job, before it takes the job over.

The decision follows from the journal alone. The driver decides before it prepares the job, because planning takes
seconds, and a refusal must come before anything is written. At the claim, it decides again from the latest journal. If
the two decisions differ, the driver does not claim the job, but prepares it again.
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
    """The decision of a driver how to continue a job.

    Attributes:
        finished: True if the job is FINISHED, and the options do not ask for a restore.
        restore: the checkpoint to restore; None if the job resumes after its published batches.
        may_start_from_scratch: True if no checkpoint has any data, so that nothing was ever released. The job may then
            start from scratch if its definition no longer fits.
        graph: the graph in the journal. A request may change it while a driver prepares the job (R21).
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
    """Why the options make the job start from scratch, although it could resume; None if they do not."""
    reconciliation: Reconciliation | None
    """Subtasks of a BATCH job that must run again because their results are lost; None for none, or without a check."""
    split_lists: Mapping[str, SourceFrozen]
    """Source with splits -> its frozen list. Decisions differ if the previous driver freezes a list between them."""
    compared: tuple[JobDefinition | None, int]
    """(Definition of the last run, epoch of the last start from scratch). Decisions differ if either has changed."""
    state: JobState = field(compare=False, repr=False)
    """The journal's state from which the decision follows, after the resets of ``reconciliation``."""


def decide(storage: Storage, options: RunOptions, state: JobState, reconciler: Reconciler | None = None) -> Decision:
    """Decide how to continue the job. Write nothing.

    Args:
        reconciler: finds lost results in batch mode. A driver uses one reconciler for all its decisions. None in a
            worker, because the driver that prepared the job has already decided.

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
        # a restored job may run operators again that have finished since the checkpoint
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
        compared=(state.definition, state.from_scratch_epoch),
        state=state,
    )


def _not_recovered(options: RunOptions, state: JobState) -> str | None:
    """Return why a BATCH job starts from scratch, because the user has switched off its recovery; otherwise None.

    The option is ``execution.batch.job-recovery.enabled`` of Flink (FLIP-383). It has no effect if a checkpoint has
    data, because output may be released. It has none on a stopped job, because its user wants to resume it.
    """
    if options.batch_recovery or not state.is_batch:
        return None
    if state.status is JobStatus.STOPPED or not nothing_is_covered(state):
        return None
    return "batch_recovery is off"
