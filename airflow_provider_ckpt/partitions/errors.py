"""Errors of subtask logs and partitions."""

from __future__ import annotations

from airflow_provider_ckpt.errors import OvertakenError, TerminalError, TransientError


class UnknownRecordError(TerminalError):
    """``where``: the subtask log, or the entry."""

    template = (
        "{where} holds a record of type {kind!r}, which this version does not know; "
        "run the job with the version that wrote it, or a newer one"
    )


class BatchConflictError(TerminalError):
    """R1: an entry for a known batch id is a no-op when its offsets are equal, a hard error otherwise."""

    template = (
        "batch {batch_id} of {log} is published with offsets {published}, and now came with {offered}; "
        "the Spark checkpoint folder and the log have parted: go back to the last checkpoint with --restore instead of "
        "resuming"
    )


class BatchGapError(TerminalError):
    template = (
        "batch {batch_id} of {log} was offered after batch {last}; the Spark checkpoint folder and the log "
        "have parted: go back to the last checkpoint with --restore instead of resuming"
    )


class EndedLogError(TerminalError):
    """R11: the log's tail decides about the end."""

    template = "{log} is at its {end}, which ends the subtask's data for good; a {record} cannot follow it"


class PreparedLostError(TerminalError):
    """The note of what a batch has staged is lost, and Spark has committed the batch: it will not be run again."""

    template = (
        "{uri} {problem}. It says what the last batch has staged that Spark committed, and without it the rows of that "
        "batch would be lost. Nothing was deleted on account of it: put it back from a backup and run the job again, "
        "or run the job under another id, from its input"
    )


class PartitionFilesDamagedError(TerminalError):
    template = (
        "{uri} was published with {size} bytes and {found}; its rows would be lost to whoever reads the partition: put "
        "it back as it was and start the job with --resume-failed, or run the job under another id"
    )


class ResultLostError(TransientError):
    """In BATCH nothing was released that depends on it, so it is produced again: by the next run, which looks for what
    is gone before it begins (FLIP-383)."""

    template = (
        "{uri}, of the result of {producer}, was published with {size} bytes and {found}. No row is lost: the next run "
        "produces it again, and what else is gone, and keeps the rest"
    )


class LogFencedError(OvertakenError):
    """A later attempt of the subtask opened the log: this attempt must stop at once (R3)."""

    template = "{log} was taken over by attempt {attempt} of epoch {epoch}; this attempt is fenced and stops"


class LaterTryError(LogFencedError):
    """W14: an attempt of a try that its supervisor has given up wanted to open the log: it has slept, and would take
    the subtask from whoever runs it by now."""

    template = (
        "{log} was opened by a later try (attempt {attempt} of epoch {epoch}) than number {own}, whose worker is "
        "fenced, and stops"
    )


class LogHeldError(LogFencedError):
    """An attempt that is not later than the one that holds the log wanted to open it: it was overtaken before it had
    begun, or another process takes itself for the same attempt."""

    template = "{log} is held by attempt {attempt} of epoch {epoch}; {own} does not come after it, is fenced, and stops"
