"""Factories for the tasks of a planned job, in a driver or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor

from airflow_provider_ckpt.jobmaster.restore import nothing_is_covered
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.query.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.job_plan import JobPlan
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.spark_task_factory import SparkTaskFactory
from airflow_provider_ckpt.spark.task.streaming_runner_factory import StreamingRunnerFactory

ALIGNED_TIMEOUT = 10.0
"""Seconds an aligned checkpoint waits for the slowest input before it goes unaligned."""


def make_factory(
    context: RunContext,
    plan: JobPlan,
    state: JobState,
    sinks: Mapping[str, BoundSink],
    frozen: Mapping[str, FrozenEnd],
    splits: Mapping[str, Sequence[Split]],
    logs: MutableMapping[SubtaskId, SubtaskLog],
    log_of: Callable[[SubtaskId], LogReader],
    batch_thread: Executor,
) -> SparkTaskFactory:
    """Make the factory for the tasks of all subtasks.

    Args:
        state: of the job, as the journal has it.
        frozen: source -> its frozen end, without finished sources.
        splits: source -> its frozen splits, without finished sources.
        logs: subtask -> the log of an attempt that begins here.
        log_of: returns a readable log of any subtask.
        batch_thread: runs the vertices of a job in batch mode.
    """
    streaming = make_streaming_factory(context, plan, sinks, frozen, logs, log_of)
    return SparkTaskFactory(
        context,
        streaming,
        logs,
        frozen,
        splits,
        plan.schemas,
        {vertex.uid: state.since(vertex.uid) for vertex in plan.graph.vertices},
        batch_thread,
        log_of=log_of,
        batch=plan.mode == "batch",
        produces_again=nothing_is_covered(state),
    )


def make_streaming_factory(
    context: RunContext,
    plan: JobPlan,
    sinks: Mapping[str, BoundSink],
    frozen: Mapping[str, FrozenEnd],
    logs: Mapping[SubtaskId, SubtaskLog],
    log_of: Callable[[SubtaskId], LogReader],
) -> StreamingRunnerFactory:
    """Make the factory for the runners of streaming queries. Its arguments are those of :func:`make_factory`."""
    return StreamingRunnerFactory(
        context,
        logs,
        sinks,
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
