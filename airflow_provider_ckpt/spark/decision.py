"""What a driver decides about a job before it takes it over.

Everything here follows from the journal. It is looked at once to get ready (planning takes seconds, and a refusal must
come before anything is written), and again, by the claim itself, on the very state that the claim follows: if the
decision would be another one by then, the claim is not made and the driver gets ready anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.jobmaster.log_checks import check_journal
from airflow_provider_ckpt.jobmaster.reconciliation import Reconciler, Reconciliation
from airflow_provider_ckpt.jobmaster.restore import RestorePoint, goes_on, nothing_is_covered, restore_point
from airflow_provider_ckpt.journal.kinds.sources import SourceFrozen
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.spark.errors import JobFailedTerminallyError
from airflow_provider_ckpt.spark.query.done import Done
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class Decision:
    """``is_new``: nothing is journaled for the job. ``finished``: nothing is left to run. ``restore``: the checkpoint
    to go back to; None: go on from what is published. ``may_begin_anew``: no checkpoint covers anything, so nothing was
    ever released, and a definition that does not fit the one before may start from nothing. ``graph``: as the job runs,
    or ran last: it may have changed under a driver that gets ready (R21)."""

    is_new: bool
    finished: bool
    restore: RestorePoint | None
    done: Done
    may_begin_anew: bool
    graph: JobGraph
    rescaled: Mapping[str, int]
    settings: Settings
    begins_anew: str | None
    """Why nothing is kept of the runs before, though nothing stands against it; None: that is not wanted."""
    reconciliation: Reconciliation | None
    """Of a job in BATCH mode: what is run again, as results are gone that are to be read."""
    split_lists: Mapping[str, SourceFrozen]
    """Source -> its list of splits that is frozen. One that the driver before has frozen since holds, and is not what
    was planned with."""
    compared: tuple[JobDefinition | None, int]
    """The definition that the job is compared with, and the epoch in which it began anew: what a driver with another
    job file has published since is not what was compared."""
    state: JobState = field(compare=False, repr=False)
    """What it was decided from, with that reset."""


def decide(storage: Storage, options: RunOptions, state: JobState, reconciler: Reconciler | None = None) -> Decision:
    """Raises CorruptJournalError, JobDeletedError, JobFailedTerminallyError, RestoreRefusedError. Reads, writes
    nothing. ``reconciler``: one for all decisions of a driver that goes on with the job; None: that is
    not looked at, as by a worker, which runs what its planner has decided."""
    check_journal(storage, state)
    state.refuse_deleted()
    if state.status is JobStatus.FAILED and not options.resume_failed:
        raise JobFailedTerminallyError(job_id=options.job_id, cause=state.cause)
    going_on = goes_on(storage, options.job_id, options.restore, state)
    finished = state.status is JobStatus.FINISHED and going_on
    anew = reconciliation = None
    if reconciler is not None and going_on and not finished:
        anew = _not_recovered(options, state)
        reconciliation = None if anew else reconciler.reconcile(state)
    if reconciliation is not None:
        state = reconciliation.applied(state)
    graph = state.graph()
    return Decision(
        is_new=state.created is None,
        finished=finished,
        restore=None if going_on else restore_point(storage, options.job_id, options.restore, state),
        # a checkpoint may bring back what is over by now
        done=Done.of(state) if going_on else Done.again(state),
        may_begin_anew=state.plan is not None and nothing_is_covered(state),
        graph=graph,
        rescaled={} if state.plan is None else state.plan.rescaled,
        settings=state.settings,
        begins_anew=anew,
        reconciliation=reconciliation,
        split_lists={
            one.uid: state.frozen[one.uid] for one in graph.vertices if one.splits and one.uid in state.frozen
        },
        compared=(None if state.plan is None else state.plan.definition, state.anew_epoch),
        state=state,
    )


def _not_recovered(options: RunOptions, state: JobState) -> str | None:
    """FLIP-383 with ``execution.batch.job-recovery.enabled: false``. What a checkpoint covers may be released, and is
    never done again; and whoever stopped a job wants it to go on."""
    if options.batch_recovery or state.plan is None or state.definition is None or state.definition.mode != "batch":
        return None
    if state.status is JobStatus.STOPPED or not nothing_is_covered(state):
        return None
    return "batch_recovery is off"
