"""Dry run of a job. It makes the checks that a run makes before its claim, and writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.options.deadlines import check_deadlines
from airflow_provider_ckpt.jobmaster.errors import JobRunsError
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler
from airflow_provider_ckpt.jobmaster.recovery.takeover import refuse_living_driver
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.sinks.lost_output import refuse_older_journal
from airflow_provider_ckpt.spark.plan.resumable import check_finished_job
from airflow_provider_ckpt.spark.preparation.decision import Decision, decide
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun
from airflow_provider_ckpt.spark.preparation.notices import hides_partitions, leaves_out
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun, prepare
from airflow_provider_ckpt.status.exit_code import ExitCode


@dataclass(frozen=True)
class CheckedQuery:
    """A vertex of the job in the result of a dry run. ``columns``: (name, Spark's type) of each output column."""

    uid: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    sinks: tuple[str, ...]
    bounded: bool
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CheckedJob:
    """The result of a dry run.

    Attributes:
        status: the job's status; None if the job is new under this root.
        would: what a run would do first, as a verb phrase such as "begin the job".
        mode: mode of the next run; None for a FINISHED job, because it does not run again.
        sinks: sink -> the last checkpoint that it has released; 0 if none.
        notes: further facts, each a sentence.
        refused: why `ckpt run` would refuse now, because another driver runs the job; None if no other driver does.
    """

    job_id: str
    status: JobStatus | None
    would: str
    mode: RuntimeMode | None = None
    queries: tuple[CheckedQuery, ...] = ()
    sinks: Mapping[str, int] = field(default_factory=dict)
    refused: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DryRun:
    """The dry run as a function that a process calls with the loaded job. ``show`` is called with the result."""

    show: Callable[[CheckedJob], None]

    def __call__(self, run: LoadedRun) -> ExitCode:
        self.show(check_job(run))
        return ExitCode.FINISHED


def check_job(run: LoadedRun) -> CheckedJob:
    """Make the checks that a run makes before its first write: definition, schemas, journal and sinks.

    Spark starts, unless the job has finished. The job's functions are called, and each sink reports its last release.
    Whether a sink may write is not tried.

    Raises:
        InvalidInputError: a run would refuse the job.
        CkptError: a run would fail, for example because a sink does not answer.
    """
    job, options, storage, journal = run.job, run.options, run.storage, run.journal
    state = journal.refresh()
    decision = decide(storage, options, state, Reconciler(storage, options.job_id))
    if decision.finished:
        check_finished_job(state, job, options)
        return CheckedJob(options.job_id, state.status, "do nothing, because the job has FINISHED")
    live = [source.uid for source in job.sources if not source.bounded]
    check_deadlines(options, live, is_new=decision.is_new, now=time.time())
    prepared = prepare(run, decision)
    refuse_older_journal(journal, prepared.sinks)
    return CheckedJob(
        options.job_id,
        state.status,
        _would(prepared, decision),
        prepared.plan.mode,
        tuple(_query(prepared, vertex.uid) for vertex in prepared.plan.graph.vertices),
        {uid: sink.last_released() for uid, sink in sorted(prepared.sinks.items())},
        _refused(journal, storage.uri),
        (*leaves_out(job), *hides_partitions(job)),
    )


def _would(prepared: PreparedRun, decision: Decision) -> str:
    if decision.is_new:
        return "begin the job"
    if prepared.scratch_reason is not None:
        return f"begin the job again from nothing: {prepared.scratch_reason}"
    if decision.restore is not None:
        return f"go back to checkpoint {decision.restore.checkpoint}"
    checkpoint = decision.state.last_completed
    return (
        f"resume the job after checkpoint {checkpoint}"
        if checkpoint
        else "resume the job, which has completed no checkpoint"
    )


def _query(prepared: PreparedRun, uid: str) -> CheckedQuery:
    vertex, graph = prepared.plan.graph.vertex(uid), prepared.plan.graph
    columns = tuple((field.name, field.dataType.simpleString()) for field in prepared.plan.schemas[uid])
    inputs = tuple(edge.producer for edge in graph.inputs(uid))
    return CheckedQuery(uid, vertex.operators, inputs, vertex.sinks, vertex.bounded, columns)


def _refused(journal: Journal, root: str) -> str | None:
    try:
        refuse_living_driver(journal.state, time.time(), root)
    except JobRunsError as error:
        return str(error)
    return None
