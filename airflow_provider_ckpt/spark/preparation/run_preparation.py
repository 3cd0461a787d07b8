"""The second stage of a run: check the sinks, start Spark, plan the job, and check the plan.

This stage writes nothing, except probe files that test the rights in object stores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError, InvalidInputError
from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.job.reconfigured import reconfigured
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.sinks.binding import bind_sinks, output_folders
from airflow_provider_ckpt.sinks.file.shared_columns import refuse_unlike_columns
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.app.kept_settings import KeptSettings, keep_settings
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.app.shipped_modules import ship_modules
from airflow_provider_ckpt.spark.app.storage_reachability import StorageReachability, reach_root
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan, plan_job
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.spark.plan.planned_splits import CurrentSplits, plan_splits, plan_splits_from_scratch
from airflow_provider_ckpt.spark.plan.resumable import check_resumable
from airflow_provider_ckpt.spark.preparation.code_checks import refuse_edited, refuse_foreign, unfit
from airflow_provider_ckpt.spark.preparation.decision import Decision
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun
from airflow_provider_ckpt.spark.preparation.own_output import refuse_links, refuse_own_output, refuse_root_in_source
from airflow_provider_ckpt.spark.query.analysed_plan import analysed
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError, FunctionFailedForNowError
from airflow_provider_ckpt.spark.query.finished_work import FinishedWork
from airflow_provider_ckpt.spark.query.sources.empty_sources import refuse_empty
from airflow_provider_ckpt.spark.query.sources.frozen_files import frame_of_existing, list_files
from airflow_provider_ckpt.spark.query.sources.partition_folders import refuse_null_columns
from airflow_provider_ckpt.spark.query.sources.shared_files import refuse_shared_files
from airflow_provider_ckpt.spark.query.sources.unfit_files import unfit_file
from airflow_provider_ckpt.storage.writable import refuse_unwritable

CheckLogic = Callable[[LogicLoader], None]


@dataclass(frozen=True)
class PreparedRun:
    """A run whose job was planned and passed all checks.

    Attributes:
        job: the job with the functions that requests have assigned.
        sinks: sink uid -> sink bound to the job.
        logic: loader of assigned functions, also for later requests.
        kept: Spark settings and time zones that affect the values of rows, as in the job's first run.
        reach: check of Spark's access to the root; None for a local root.
        scratch_reason: why the job starts from scratch, and discards previous runs; None if it resumes, or is new.
        refused: the error because of which the job starts from scratch; None if there is no such error.
    """

    run: LoadedRun
    job: Job
    spark: SparkSession
    plan: JobPlan
    decision: Decision
    sinks: Mapping[str, BoundSink]
    logic: LogicLoader
    kept: KeptSettings
    reach: StorageReachability | None = None
    scratch_reason: str | None = None
    refused: CkptError | None = None

    @property
    def options(self) -> RunOptions:
        return self.run.options

    @property
    def application(self) -> str:
        """The id of Spark's application."""
        return self.spark.sparkContext.applicationId

    def places(self) -> dict[str, object]:
        """Return fields for the status line of the start: the URL of Spark's UI, and the sinks' folders."""
        return {"spark_ui": self.spark.sparkContext.uiWebUrl, "outputs": output_folders(self.job, self.run.location)}

    def bounded_reads(self) -> dict[str, Any]:
        """Return source -> its format, paths and options, for unfinished bounded sources without splits."""
        reads = self.plan.reads
        return {source.uid: reads[source.uid] for source in self.job.sources if source.bounded and source.uid in reads}


def prepare(
    run: LoadedRun, decision: Decision, check: CheckLogic | None = None, *, tries_rights: bool = False
) -> PreparedRun:
    """Make all checks that need no Spark, because Spark may take minutes to start. Then start Spark, and plan the job.

    ``check``: see :func:`plan_run`. ``tries_rights``: True to write a probe to each object store, and delete it again.

    Raises the errors of :func:`checked_sinks`, :func:`reach_root` and :func:`plan_run`.
    """
    sinks = checked_sinks(run, decision)
    if tries_rights:
        _check_rights(run, sinks)
    reach = _reach(run)  # before any function of the user, which might open the same store with other settings
    return replace(plan_run(run, decision, sinks, check), reach=reach)


def checked_sinks(run: LoadedRun, decision: Decision) -> dict[str, BoundSink]:
    """Make all checks that need no Spark. Return sink uid -> sink bound to the job.

    Raises StorageReadOnlyError for a root that cannot be written, InvalidInputError, and errors of sinks.
    """
    job, job_id, location = run.job, run.options.job_id, run.location
    refuse_foreign(CodePlaces.of(job, run.options, location), run, decision)
    refuse_unwritable(run.storage)
    sinks = bind_sinks(job, job_id, location)
    if decision.is_new:
        _refuse_taken(sinks, job_id, run.storage.uri)
    changed = _retargeted_sinks(job, decision.state)  # the comparison with the last run reports these sinks
    refuse_lost_output(decision.state, {uid: sink for uid, sink in sinks.items() if uid not in changed})
    return sinks


def _check_rights(run: LoadedRun, sinks: Mapping[str, BoundSink]) -> None:
    """Refuse a root or sink in an object store in which this driver lacks a right. Spark would fail minutes later.

    Raises StorageReadOnlyError, StorageDeniedError.
    """
    folders = {
        place.uri: place for place in (run.storage, *(place for sink in sinks.values() for place in sink.storages()))
    }
    for folder in folders.values():
        folder.check_rights(run.options.job_id)


def _reach(run: LoadedRun) -> StorageReachability | None:
    return reach_root(run.job, run.options, run.storage, run.location)


def _retargeted_sinks(job: Job, state: JobState) -> set[str]:
    """Return the sinks whose definition differs from the last run in a key that must not change."""
    recorded = {} if state.definition is None else state.definition.sinks
    changed = set()
    for operator in job.sinks:
        previous, current = recorded.get(operator.uid), operator.sink.definition()
        fixed = (current.keys() | (previous.target.keys() if previous else set())) - set(operator.sink.changeable)
        if previous is not None and any(previous.target.get(key) != current.get(key) for key in fixed):
            changed.add(operator.uid)
    return changed


def plan_run(
    run: LoadedRun, decision: Decision, sinks: dict[str, BoundSink], check: CheckLogic | None = None
) -> PreparedRun:
    """Plan the job as ``decision`` says, and check the plan. Spark starts here, unless it runs already.

    ``check``: checks the code of assigned functions before any function is called. If it is None, edited code is
    refused.

    Raises InvalidInputError, and errors of sinks.
    """
    declared, options, storage, location = run.job, run.options, run.storage, run.location
    declared.runs_under(location)
    spark = build_session(options.job_id, options.conf, storage.uri)
    logic = LogicLoader(options.params, location, CodePlaces.of(declared, options, location))
    if check is None:
        refuse_edited(logic, run, decision)
    else:
        check(logic)
    ship_modules(spark.sparkContext, declared.own_modules)
    settings = keep_settings(spark, options.conf, _recorded_settings(options, decision))
    job = declared.with_operators(_with_assigned_functions(run, decision, decision.graph, logic))
    plan, refused = _Planning(spark, job, run, decision).plan()
    reason = decision.scratch_reason if refused is None else f"it does not fit the previous run: {refused}"
    if reason is not None:
        changed = _with_assigned_functions(run, decision, plan.graph, logic)
        if changed != {**job.operators}:  # an operator is in another query in the new plan
            job = declared.with_operators(changed)
            plan = _Planning(spark, job, run, decision).from_scratch()
    frozen = () if reason is not None else decision.state.frozen
    _refuse_empty(spark, job, plan, frozen)
    _refuse_unfit(spark, job, plan, frozen)
    refuse_shared_files(spark, job, plan.reads)
    refuse_own_output(job, plan.reads, location)
    refuse_root_in_source(plan.reads, storage, options.job_id)
    refuse_links(job, plan.reads, storage, location, options.job_id)
    refuse_null_columns(spark, job, plan.reads)
    if reason and not decision.is_new:
        _refuse_taken(sinks, options.job_id, storage.uri)
    refuse_unlike_columns(job.sinks, plan.sink_inputs)
    for uid, input_schema in plan.sink_inputs.items():
        sinks[uid].check_rows(input_schema)
    plan = replace(plan, definition=replace(plan.definition, session=settings.values))
    logic.places = logic.places.without_input(plan.reads.values())  # no later request may name code there
    return PreparedRun(run, job, spark, plan, decision, sinks, logic, settings, scratch_reason=reason, refused=refused)


def _recorded_settings(options: RunOptions, decision: Decision) -> Mapping[str, str]:
    """Return Spark settings of the job's first run; empty for a first run, a start from scratch, and --new-settings."""
    definition = decision.state.definition
    if definition is None or decision.scratch_reason is not None or options.new_settings:
        return {}
    return definition.session


def _refuse_empty(spark: SparkSession, job: Job, plan: JobPlan, frozen: Collection[str]) -> None:
    """Refuse bounded file sources without a file. Do not check sources that may be empty, and sources in ``frozen``.

    The check is repeated when the list of files is frozen. ``frozen``: sources whose ends are already frozen.
    """
    for source in job.sources:
        read = plan.reads.get(source.uid)
        is_checked = source.bounded and not source.allow_empty and source.uid not in frozen
        if is_checked and read is not None and read.is_file:
            refuse_empty(spark, source.uid, source.location, read, list_files(spark, read))


def _refuse_unfit(spark: SparkSession, job: Job, plan: JobPlan, frozen: Collection[str]) -> None:
    """Refuse bounded sources with a file that Spark would misread. Do not check sources with a frozen end (``frozen``).

    Raises EmptyFileError, UnreadableFileError.
    """
    for source in job.sources:
        read = plan.reads.get(source.uid)
        if not source.bounded or source.uid in frozen or read is None or not read.is_file:
            continue
        frame, subject = frame_of_existing(spark, read), f"source {source.uid!r} ({source.location})"
        unfit = None if frame is None else unfit_file(spark, subject, analysed(frame))
        if unfit is not None:
            raise unfit


def reuse_preparation(prepared: PreparedRun, run: LoadedRun, decision: Decision) -> PreparedRun:
    """Return a copy of ``prepared`` for a later run with an equal decision. Repeat only comparisons with the journal.

    Raises the errors of :func:`prepare` for these comparisons.
    """
    keeps, root = run.allows_non_restored_state, run.location.for_display()
    check_resumable(decision.state, prepared.plan, prepared.job.code, allow_non_restored_state=keeps, root=root)
    refuse_lost_output(decision.state, prepared.sinks)
    return replace(prepared, run=run, decision=decision, reach=_reach(run))


def _with_assigned_functions(
    run: LoadedRun, decision: Decision, graph: JobGraph, logic: LogicLoader
) -> dict[str, Operator]:
    """Return operator uid -> operator of the job, with the functions that requests have assigned.

    A function is ignored if its operator was in another query at the assignment than in ``graph``.
    """
    try:
        return reconfigured(run.job.operators, graph.vertices, decision.state.settings, logic)
    except UnfitLogicError as error:
        raise unfit(**error.data, run=run) from error


@dataclass(frozen=True)
class _Planning:
    """The planning of a job, as a resumed job or as a start from scratch. ``job``: see :class:`PreparedRun`."""

    spark: SparkSession
    job: Job
    run: LoadedRun
    decision: Decision
    given: CurrentSplits = field(default_factory=CurrentSplits)

    def plan(self) -> tuple[JobPlan, CkptError | None]:
        """Return (plan, error that makes the plan start from scratch). The error is None if no error does."""
        decision = self.decision
        if decision.scratch_reason is not None:
            return self.from_scratch(), None
        try:
            return self._resumed(), None
        except (FunctionFailedError, FunctionFailedForNowError) as error:
            if not decision.may_start_from_scratch or not self._may_fail_on_old_data(error):
                raise
            plan = self.from_scratch()
            try:  # again, because the job may be unchanged and a service that it calls may have been down
                return self._resumed(), None
            except (InvalidInputError, FunctionFailedForNowError) as second_error:
                if second_error.retryable and not error.retryable:
                    raise  # now a temporary error, so a retry may succeed
            return plan, error
        except InvalidInputError as refused:
            if not decision.may_start_from_scratch:
                raise
            # Nothing was released, nothing completed: as in Flink, such a job starts from scratch.
            return self.from_scratch(), refused

    def from_scratch(self) -> JobPlan:
        """Plan a start from scratch. Settings that requests have changed stay as they are."""
        state = self.decision.state
        splits = plan_splits_from_scratch(self.job, self.given, state)
        return plan_job(self.spark, self.job, self.run.options, FinishedWork(settings=state.settings), splits)

    def _resumed(self) -> JobPlan:
        run, job, state, done = self.run, self.job, self.decision.state, self.decision.done
        splits = plan_splits(job, self.given, run.storage, state, done.over)
        plan = _laid_out(plan_job(self.spark, job, run.options, done, splits), state)
        keeps, root = run.allows_non_restored_state, run.storage.uri
        check_resumable(state, plan, job.code, allow_non_restored_state=keeps, root=root)
        return plan

    def _may_fail_on_old_data(self, failed: CkptError) -> bool:
        """Return whether a function may have failed because of earlier runs, so that a start from scratch may help.

        A transform may, unless its failure is temporary and a retry may help. A source's function gets nothing from
        earlier runs except frozen splits. So it may only if these differ from the splits that the job now has.
        """
        uid, job, decision = failed.data["uid"], self.job, self.decision
        if job.operators[uid].inputs:
            return not failed.retryable
        return uid in plan_splits(job, self.given, self.run.storage, decision.state, decision.done.over).differs


def _laid_out(plan: JobPlan, state: JobState) -> JobPlan:
    return plan if state.plan is None else replace(plan, graph=plan.graph.with_layouts_after(state.plan.graph))


def _refuse_taken(sinks: Mapping[str, BoundSink], job_id: str, root: str) -> None:
    for uid, sink in sinks.items():
        released = _last_released(sink)
        if released:  # a job of this id under another root has released this output
            raise InvalidInputError(
                "Sink {sink} of job {job_id!r} holds output of a job of that name up to checkpoint {released}, and "
                "under the root {root} there is no such job. Resume the job under its original root, or start from "
                "scratch with another job id or an empty target (a FileSink keeps its records in the folder '_ckpt-…' "
                "next to the table).",
                sink=uid,
                job_id=job_id,
                released=released,
                root=root,
            )
        sink.check_target()


def _last_released(sink: BoundSink) -> int:
    """Return the last checkpoint that a sink has released; 0 if none.

    If it cannot be read, :meth:`BoundSink.check_target` may raise an error that explains why.
    """
    try:
        return sink.last_released()
    except CkptError:
        sink.check_target()
        raise
