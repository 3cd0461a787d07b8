"""Errors of running tasks."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.model.words import counted


class QueryFailedError(TransientError):
    template = "the query of vertex {vertex!r} failed: {cause}"


class UnfitInputError(TerminalError):
    """Files, rows or values that a query can never read. Nothing of the batch was released.

    The user must correct the input, and start the job with --resume-failed.
    """


class FilesSettledError(QueryFailedError):
    """Files that changed while a micro-batch waited for them. The batch is restarted and reads the complete files."""

    template = "the query of vertex {vertex!r} waited until {file} was complete, and restarts its micro-batch"


def unfit_event_time(vertex: str, source: str, times: SourceTimes) -> UnfitInputError:
    reasons = (
        (times.without, "without an event time (no window ever closes with them)"),
        (times.before_1970, "before 1970 (Spark treats them as late)"),
        (times.ahead, "further ahead of the clock than max_ahead (they do not move the watermark)"),
    )
    rows = " and ".join(f"{counted(count, 'row')} {reason}" for count, reason in reasons if count)
    return UnfitInputError(
        "source {source!r} gave the query of vertex {vertex!r} {rows}, and has late_rows='fail'. Nothing of the "
        "micro-batch was released. Correct or filter such rows in the source's function, or set late_rows='warn', and "
        "run with --resume-failed",
        vertex=vertex,
        source=source,
        rows=rows,
    )


class ExecutorPythonError(TerminalError):
    """A Python of the executors that cannot run the job's functions. The cluster's administrator must correct it."""

    template = (
        "the query of vertex {vertex!r} failed in a Python worker: {problem}. Nothing of the batch was released. "
        "Choose a Python for the executors with --conf spark.pyspark.python=PATH, of the driver's minor version and "
        "with pyspark and pyarrow. Then start the job with --resume-failed"
    )


class KafkaRowsGoneError(TerminalError):
    """Unread rows that a running query no longer finds in Kafka."""

    template = (
        "the query of vertex {vertex!r} cannot continue: rows that it has not read are gone from Kafka. {reason} "
        "Retention has deleted them, or the topic was deleted or created again. Nothing of the batch was released. A "
        "retry would fail in the same way: run the job under another id, from the rows that are left"
    )
