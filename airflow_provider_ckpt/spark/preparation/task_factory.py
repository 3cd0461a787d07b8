"""Factories for the tasks of a planned job, in a driver or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor

from airflow_provider_ckpt.coordinator.protocol.reports import FilesChanged, TaskReport
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import continues_at
from airflow_provider_ckpt.jobmaster.recovery.log_checks import is_outdated
from airflow_provider_ckpt.jobmaster.recovery.restore import nothing_is_covered
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.preparation.run_preparation import PreparedRun
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.bounded.batch_runner import BatchRunner
from airflow_provider_ckpt.spark.task.bounded.split_runner import SplitRunner
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.crashes import report_crash
from airflow_provider_ckpt.spark.task.executors import Executors
from airflow_provider_ckpt.spark.task.streaming.streaming_runner import StreamingRunner
from airflow_provider_ckpt.spark.task.streaming.streaming_runner_factory import StreamingRunnerFactory
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog

Runner = StreamingRunner | BatchRunner | SplitRunner


class SparkTaskFactory:
    """Factory of the tasks of one epoch, also for the next attempts of failed subtasks.

    Args:
        frozen: source -> its frozen end. Finished sources are left out.
        splits: source -> its frozen splits. Finished sources are left out.
        logs: subtask -> the open log of its current attempt. For the next attempt, the factory puts another log here.
        log_of: returns a reader of a subtask's log.
        thread: executor that runs the vertices of a BATCH job.
    """

    def __init__(
        self,
        context: RunContext,
        prepared: PreparedRun,
        state: JobState,
        frozen: Mapping[str, FrozenEnd],
        splits: Mapping[str, Sequence[Split]],
        logs: MutableMapping[SubtaskId, SubtaskLog],
        log_of: Callable[[SubtaskId], LogReader],
        thread: Executor,
    ) -> None:
        plan = prepared.plan
        self._context, self._logs, self._log_of = context, logs, log_of
        self._streaming = make_streaming_factory(context, prepared, frozen, logs, log_of)
        self._frozen, self._splits, self._schemas = frozen, splits, plan.schemas
        self._since = {vertex.uid: state.valid_from(vertex.uid) for vertex in plan.graph.vertices}
        self._thread, self._batch = thread, plan.mode == "batch"
        self._produces_again = nothing_is_covered(state)
        self._current: dict[SubtaskId, Runner] = {}
        self._late: set[str] = set()
        """Normal paths of late files that tasks of earlier attempts have read."""

    def make(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan, *, restores: bool) -> Runner:
        """Return a new task for ``attempt``, with its Spark folder. The subtask's log must be open for the attempt.

        Also publish a batch that Spark has committed and no earlier attempt has published (R1). ``restores``: True if
        the attempt restores a checkpoint.
        """
        runner = self._make(subtask, attempt, plan, restores)
        if attempt.number:  # before the first attempts of an epoch, the driver deletes all leftovers at once
            self._delete_leftovers(subtask, attempt, plan)
        previous = self._current.get(subtask)
        self._late |= set() if previous is None else previous.late_files()
        self._current[subtask] = runner
        return runner

    def current(self, subtask: SubtaskId) -> Runner | None:
        """Return the task of the subtask's current attempt; None before its first attempt. Any thread may call this."""
        return self._current.get(subtask)

    def late_files(self) -> set[str]:
        """Return normal paths of the files that bounded sources have read, but that their frozen lists do not name."""
        return self._late.union(*(runner.late_files() for runner in self._current.values()))

    def changed_files(self) -> list[FilesChanged]:
        """Return the files that have changed after a current task read them."""
        return [changed_file for runner in self._current.values() for changed_file in runner.changed_files()]

    def begin(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> Runner | None:
        """See :class:`~airflow_provider_ckpt.task.restarts.TaskFactory`."""
        path = subtask_log_path(self._context.job_id, subtask.vertex, subtask.number)
        log = SubtaskLog(self._context.storage, path)
        log.load()
        void = is_outdated(log, self._since[subtask.vertex])
        if log.state.closed and not void:
            return None
        by_split = self._context.graph.vertex(subtask.vertex).splits
        resumes = 0 if void else continues_at(log, batch=self._batch, by_split=by_split)
        log.open(attempt, resumes, supervised=self._context.supervised, unless_closed=not void)
        if log.state.closed and not void:  # the previous attempt has closed it meanwhile
            return None
        self._logs[subtask] = log
        return self.make(subtask, attempt, plan, restores=False)

    def failed(self, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
        report_crash(self._context, subtask, attempt, error)

    def _delete_leftovers(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan) -> None:
        log = self._logs[subtask]
        context = AttemptContext(self._context, subtask, attempt, log, plan.parallelism)
        context.check_fenced()
        self._streaming.outputs(context).delete_leftovers(log)

    def _make(self, subtask: SubtaskId, attempt: AttemptId, plan: VertexPlan, restores: bool) -> Runner:
        vertex = self._context.graph.vertex(subtask.vertex)
        context = AttemptContext(self._context, subtask, attempt, self._logs[subtask], plan.parallelism)
        if vertex.splits:
            splits = {split.id: split for split in self._splits.get(vertex.uid, ())}
            outputs = self._streaming.outputs(context)
            return SplitRunner(context, vertex, outputs, splits, self._schemas[vertex.uid])
        if self._batch:
            outputs = self._streaming.outputs(context)
            return BatchRunner(
                context,
                vertex,
                self._log_of,
                outputs,
                self._frozen,
                self._schemas,
                self._thread,
                produces_again=self._produces_again,
            )
        return self._streaming.make(subtask, attempt, plan, self._since[vertex.uid], restores=restores)


ALIGNED_TIMEOUT = 10.0
"""Maximum seconds for which a checkpoint's barriers are aligned. After that the checkpoint becomes unaligned."""


def make_context(
    prepared: PreparedRun,
    state: JobState,
    epoch: int,
    post: Callable[[TaskReport], None],
    check_fenced: Callable[[], None],
) -> RunContext:
    """Return the context that all tasks of this process share. ``post`` sends a task's report to the JobMaster."""
    return RunContext(
        spark=prepared.spark,
        storage=prepared.run.storage,
        job=prepared.job,
        job_id=prepared.options.job_id,
        graph=prepared.plan.graph,
        options=prepared.options,
        epoch=epoch,
        post=post,
        check_fenced=check_fenced,
        logic=prepared.logic,
        declared=prepared.run.job.operators,
        measures=bool(prepared.job.controllers),
        executors=Executors(prepared.spark),
        topics=prepared.plan.topics(),
        state_partitions=prepared.plan.state_partitions(),
        forgotten_files=tuple(state.forgotten_files),
        known_changed=state.known_changed(),
    )


def make_streaming_factory(
    context: RunContext,
    prepared: PreparedRun,
    frozen: Mapping[str, FrozenEnd],
    logs: Mapping[SubtaskId, SubtaskLog],
    log_of: Callable[[SubtaskId], LogReader],
) -> StreamingRunnerFactory:
    """Return a factory for the runners of streaming queries. See :class:`SparkTaskFactory` for the arguments."""
    plan = prepared.plan
    return StreamingRunnerFactory(
        context,
        logs,
        prepared.sinks,
        frozen,
        plan.schemas,
        plan.unions,
        log_of=log_of,
        aligned=plan.aligned(),
        aligned_timeout=ALIGNED_TIMEOUT,
        whole=plan.has_event_time(),
        stateful=plan.stateful(),
        changing=plan.changing,
    )
