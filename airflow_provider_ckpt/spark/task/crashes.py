"""Reports of failed tasks. Spark reports a full disk without a path, so the report adds the folders on full disks."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed, SubtaskFenced
from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.errors import SparkLostError
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.subtasklog.errors import LogFencedError, ResultLostError

_FULL = ("No space left on device", "Disk quota exceeded")
_LEAST = 1 << 20
"""Minimum of free bytes. A disk with less free space counts as full."""
_LOCAL = "file://"


def with_full_disks(cause: str, context: RunContext) -> str:
    """Return ``cause``. If it reports a full disk, add the folders of this run on full disks."""
    if not any(text in cause for text in _FULL):
        return cause
    full = full_folders(_folders(context))
    return f"{cause}; no room is left in {', '.join(full)}" if full else cause


def full_folders(folders: Iterable[str]) -> list[str]:
    """Return the local folders that are on a full disk, without duplicates."""
    return [folder for folder in dict.fromkeys(folders) if _free(folder) < _LEAST]


def _folders(context: RunContext) -> Iterator[str]:
    places = [context.storage.uri]
    places += [place.uri for operator in context.job.sinks for place in operator.sink.spark_folders({})]
    for uri in places:
        path = uri.removeprefix(_LOCAL)
        if "://" not in path:
            yield os.path.abspath(path)
    setting = os.environ.get("SPARK_LOCAL_DIRS") or context.spark.conf.get("spark.local.dir", None)
    # Spark makes a folder relative to the current one, also for a name that begins with a space
    yield from (os.path.abspath(name) for name in (setting or tempfile.gettempdir()).split(",") if name)


def _free(folder: str) -> float:
    """Return this user's free bytes on the disk of the folder, or of its nearest parent that exists.

    Return infinity if the disk does not answer.
    """
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the disk may be gone
        return float("inf")


def report_crash(context: RunContext, subtask: SubtaskId, attempt: AttemptId, error: BaseException) -> None:
    """Report to the JobMaster the error that ended a thread or query of the subtask.

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
        lost_error = SparkLostError(cause=str(error))
        lost_error.__cause__ = error
        error = lost_error
    stack_trace = "".join(traceback.format_exception(error))
    if is_lost:  # no traceback, because the failed calls of the package or of the user are not the cause
        return SubtaskFailed(*world, str(error), driver_is_lost=True, stack_trace=stack_trace)
    terminal = isinstance(error, CkptError) and not error.retryable
    if isinstance(error, ResultLostError):
        return SubtaskFailed(*world, str(error), result_is_lost=True, stack_trace=stack_trace)
    cause = find_cause(error.__cause__) if error.__cause__ is not None else None
    if cause is None or cause.traceback is None:
        return SubtaskFailed(*world, with_full_disks(str(error), context), terminal, stack_trace=stack_trace)
    return SubtaskFailed(*world, str(error), terminal, cause.message, cause.traceback, stack_trace=stack_trace)
