"""Dry runs of other versions of a running job (R21).

A dry run plans the version, compares it with the journal, and runs its queries on copies of their folders. It has no
visible effects.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark import cloudpickle

from airflow_provider_ckpt.concurrency import DaemonThreads
from airflow_provider_ckpt.coordinator.protocol.messages import UpgradeTried
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.loading.code import code_of_version
from airflow_provider_ckpt.job.loading.version import load_version
from airflow_provider_ckpt.jobmaster.recovery.reconciliation import Reconciler
from airflow_provider_ckpt.model.graph import JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.app.query_failure import describe_error
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.preparation.decision import decide
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun
from airflow_provider_ckpt.spark.preparation.own_output import refuse_root_in_output
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun, checked_sinks, plan_run
from airflow_provider_ckpt.spark.preparation.task_factory import Runner, make_streaming_factory
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.streaming.query_dry_run import LAST_TRIAL, QueryDryRuns
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.spark.task.streaming.streaming_runner_factory import StreamingRunnerFactory
from airflow_provider_ckpt.subtasklog.log_reader import CurrentLog
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


class VersionTrials:
    """The dry runs of other versions during one run of a job, each in its own thread.

    ``runner``: returns the running task of a subtask; None if the subtask has no task in this process.
    """

    def __init__(
        self,
        running: PreparedRun,
        context: RunContext,
        runner: Callable[[SubtaskId], Runner | None],
        frozen: Mapping[str, FrozenEnd],
        logs: dict[SubtaskId, SubtaskLog],
    ) -> None:
        self._running, self._context, self._runner = running, context, runner
        self._frozen, self._logs = frozen, logs
        self._threads = DaemonThreads()
        self._trials: QueryDryRuns | None = None
        self._is_closed = False
        self._found: dict[str, PreparedRun] = {}

    def submit(self, request: UpgradeRequest, notify: Callable[[UpgradeTried], None]) -> None:
        """See :class:`~airflow_provider_ckpt.jobmaster.job_identity.Upgrades`."""

        def run() -> None:
            try:
                self._found[request.name] = self._try(request)
            except BaseException as error:  # a user's file may raise anything, and only this thread would see it
                notify(UpgradeTried(request.name, describe_error(error)))
            else:
                notify(UpgradeTried(request.name, None))

        # a daemon, so that a function that never returns does not delay the end of the driver
        self._threads.start("ckpt-version-trial", run)

    def prepared_version(self, name: str) -> PreparedRun:
        """Return the version that a dry run has prepared for the request ``name``. The dry run must have succeeded."""
        return self._found[name]

    def close(self) -> None:
        """Stop all dry runs, and wait at most :data:`LAST_TRIAL` seconds until their threads have ended."""
        self._is_closed = True
        trials = self._trials
        if trials is not None:
            trials.stop()
        self._threads.join(LAST_TRIAL)

    # ---- the threads

    def _try(self, request: UpgradeRequest) -> PreparedRun:
        version = self._load(request)
        try:
            return self._prepare(version)
        except BaseException:
            version.forget()
            raise

    def _prepare(self, version: LoadedRun) -> PreparedRun:
        storage, options = version.storage, version.options
        refuse_root_in_output(version.job, storage, version.location)
        state = version.journal.replay()
        state.last_released = (
            state.last_completed
        )  # the upgrade begins when all output is released, and checks this again
        decision = decide(storage, options, state, Reconciler(storage, options.job_id))
        prepared = plan_run(version, decision, checked_sinks(version, decision))
        refuse_start_from_scratch(prepared)
        context = self._context_of(prepared)
        logs = functools.partial(CurrentLog, self._logs)
        factory = make_streaming_factory(context, prepared, self._frozen, self._logs, logs)
        for vertex in prepared.plan.graph.vertices:
            if not (vertex.splits or self._is_closed):
                self._start_on_copies(context, factory, vertex, state.settings.get(vertex.uid))
        return prepared

    def _load(self, request: UpgradeRequest) -> LoadedRun:
        """Load the file that a request names, or, if it names none, the current file of the running job.

        Raises the errors of loading a job's file and of :meth:`Job.validate`.
        """
        running = self._running
        # the version gets its own journal, because the JobMaster writes to the run's journal
        version = replace(running.run.as_later_run(), drops_operators=request.allow_non_restored_state)
        places = CodePlaces.of(running.job, version.options, version.location, running.plan.reads)
        check = None
        if request.job:
            places.check(request.job)
            check = places.check_of(request.job)
            # each later version may also use code from the folder of the first job file
            version = version.with_options(job=request.job, allow_code_from=places.folders())
        options = version.options
        loaded = load_version(options.job, options.params, check)
        cloudpickle.register_pickle_by_value(loaded.package)  # type: ignore[no-untyped-call]

        def forget() -> None:
            loaded.forget()
            cloudpickle.unregister_pickle_by_value(loaded.package)  # type: ignore[no-untyped-call]

        try:
            loaded.job.code = code_of_version(loaded.job, options.job)
            loaded.job.validate()
        except BaseException:
            forget()
            raise
        return replace(version, job=loaded.job, forget=forget)

    def _start_on_copies(
        self, context: RunContext, factory: StreamingRunnerFactory, vertex: JobVertex, settings: VertexSettings | None
    ) -> None:
        """Start the new query of a vertex on a copy of each running query's Spark folder. Skip queries with new inputs.

        Spark finds state that does not fit only when a query starts. Without a dry run, the failure would end the job.
        """
        for subtask in vertex.subtasks:
            runner = self._runner(subtask)
            if not isinstance(runner, StreamingRunner) or _adds_inputs(context.graph, vertex, runner):
                continue
            trials = self._trials = runner.trials_of(context, vertex)
            built = factory.builder(vertex, runner.edges, settings).build(runner.plan.without)
            trials.start_on_copy(f"upgrade-{uuid.uuid4().hex[:8]}", settings or VertexSettings(), built)

    def _context_of(self, prepared: PreparedRun) -> RunContext:
        return replace(
            self._context,
            job=prepared.job,
            graph=prepared.plan.graph,
            options=prepared.options,
            post=lambda report: None,
            logic=prepared.logic,
            declared=prepared.run.job.operators,
            topics=prepared.plan.topics(),
        )


def _adds_inputs(graph: JobGraph, vertex: JobVertex, runner: StreamingRunner) -> bool:
    """Return whether the version adds an input to the vertex. The copied Spark folder has no read position for it."""
    sources = set(vertex.sources) - set(runner.vertex.sources)
    edges = {edge.uid for edge in graph.inputs(vertex.uid)}
    return bool(sources or edges - {edge_input.edge.uid for edge_input in runner.edges.values()})


def refuse_start_from_scratch(prepared: PreparedRun) -> None:
    """Refuse an upgrade that would start the job from scratch, because an upgrade must keep the job's progress.

    Raises InvalidInputError.
    """
    if prepared.scratch_reason is not None:
        raise InvalidInputError(
            "{job} does not fit the running job: {problem}", job=prepared.options.job, problem=prepared.scratch_reason
        ) from prepared.refused
