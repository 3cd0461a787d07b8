"""Reports of failed tasks."""

from __future__ import annotations

import traceback

from airflow_provider_ckpt.coordinator.reports import SubtaskFailed, SubtaskFenced
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.errors import LogFencedError, ResultLostError
from airflow_provider_ckpt.spark.task.causes import find_cause
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import SparkLostError
from airflow_provider_ckpt.spark.task.full_disks import with_full_disks
from airflow_provider_ckpt.spark.task.jvm import is_gone


def report_crash(context: RunContext, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
    """Report to the JobMaster the error that ended a thread or a query of the subtask.

    Any thread may call this, also more than once.
    """
    context.post(_report(context, subtask, attempt, error))


def _report(
    context: RunContext, subtask: SubtaskId, attempt: AttemptId, error: BaseException
) -> SubtaskFailed | SubtaskFenced:
    world = (context.epoch, subtask, attempt)
    if isinstance(error, LogFencedError):
        return SubtaskFenced(*world, cause=str(error), by=error.data["attempt"])
    if isinstance(error, OvertakenError):
        return SubtaskFenced(*world, cause=str(error))
    is_lost = is_gone()
    if is_lost and not isinstance(error, SparkLostError):
        lost = SparkLostError(cause=str(error))
        lost.__cause__ = error
        error = lost
    stack_trace = "".join(traceback.format_exception(error))
    if is_lost:  # no traceback, because the failed calls of the package or of the user are not the cause
        return SubtaskFailed(*world, str(error), driver_is_lost=True, stack_trace=stack_trace)
    terminal = isinstance(error, CkptError) and not error.retryable
    if isinstance(error, ResultLostError):
        return SubtaskFailed(*world, str(error), result_is_lost=True, stack_trace=stack_trace)
    found = find_cause(error.__cause__) if error.__cause__ is not None else None
    if found is None or found.traceback is None:
        return SubtaskFailed(*world, with_full_disks(str(error), context), terminal, stack_trace=stack_trace)
    return SubtaskFailed(*world, str(error), terminal, found.message, found.traceback, stack_trace=stack_trace)
