"""Errors of subtask logs and partitions."""

from __future__ import annotations

from airflow_provider_ckpt.errors import OvertakenError, TerminalError, TransientError


class UnknownRecordError(TerminalError):
    """Error for a log entry of an unknown type. ``where`` names the log or the entry."""

    template = (
        "{where} holds a record of type {kind!r}, which this version does not know; "
        "run the job with the version that wrote it, or a newer one"
    )


class BatchConflictError(TerminalError):
    """Error for a batch that does not follow the last batch of its log.

    A repeated batch with equal offsets is no conflict (R1).
    """

    template = (
        "batch {batch_id} of {log} was offered after batch {last}; the Spark checkpoint folder and the log "
        "disagree: go back to the last checkpoint with --restore instead of resuming"
    )


class EndedLogError(TerminalError):
    """Error for an append after the log's end of data or end of partition, which is final (R11)."""

    template = "{log} is at its {end}, which ends the subtask's data for good; a {record} cannot follow it"


class PreparedLostError(TerminalError):
    """Error for a lost or unreadable note of a staged batch that Spark has committed.

    Spark will not run that batch again.
    """

    template = (
        "{uri} {problem}. It records what the last batch that Spark committed has staged; without it the rows of that "
        "batch would be lost. Nothing was deleted because of it: put it back from a backup and run the job again, "
        "or run the job under another id, from its input"
    )


class PartitionFilesDamagedError(TerminalError):
    """Error for published files of a result partition that are missing, or whose size has changed."""

    template = (
        "{uri} was published with {size} bytes and {found}; its rows would be lost to the partition's readers: put "
        "it back as it was and start the job with --resume-failed, or run the job under another id"
    )


class ResultLostError(TransientError):
    """Error for a missing file of a result in BATCH mode. The next run produces the file again.

    Nothing that depends on the file is released. Each run checks for missing files before it begins (FLIP-383).
    """

    template = (
        "{uri}, of the result of {producer}, was published with {size} bytes and {found}. No row is lost: the next run "
        "produces every missing file again and keeps the rest"
    )


class LogFencedError(OvertakenError):
    """Error if a later attempt of the subtask has opened the log. The fenced attempt must stop at once (R3)."""

    template = "{log} was taken over by attempt {attempt} of epoch {epoch}; this attempt is fenced and stops"
