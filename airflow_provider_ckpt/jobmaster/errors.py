"""Errors of the JobMaster."""

from __future__ import annotations

from airflow_provider_ckpt.errors import (
    DeletionRefusedError,
    InvalidInputError,
    TerminalError,
    TransientError,
)


class AbandonedError(TransientError):
    """Error if the process of a JobMaster ends before the job. The next JobMaster takes over as after a crash."""

    template = "the JobMaster of epoch {epoch} leaves job {job_id!r} because its process ends: the next one resumes it"


class SubtaskLogLostError(TerminalError):
    """Error for lost log entries that a checkpoint covers, that a consumer has read, or that end a log.

    A resumed job would lose rows, or release some of them twice.
    """

    template = (
        "{log} ends before entry {next}, and checkpoint {checkpoint} covers it up to entry {covered}: entries were "
        "removed; bring them back from a backup, or run the job under another id"
    )


class ReleaseHeldError(TransientError):
    """Error if a closed gate holds back the release of a sink, and of all sinks of its transaction.

    ``data``: job, sinks, gates (sinks with a closed gate), checkpoint.
    """

    template = (
        "what job {job!r} has completed up to checkpoint {checkpoint} is not released in {sinks}: the gates of {gates} "
        "are closed. The rows stay staged; release again when the gates are open"
    )


class JobRunsError(InvalidInputError):
    """Error for a run or release while a driver or workers of the job live. The user must stop the job first."""


class NoSuchResultError(InvalidInputError):
    """Error if the job has no persisted result of an operator. ``data``: job_id, operator, status, known."""

    template = "job {job_id!r} ({status}) keeps no result of {operator!r}; its operators with persist=True are: {known}"


class ResultNotPersistedError(TransientError):
    """Error if a result is requested before the job has FINISHED. ``data``: job_id, operator, status."""

    template = (
        "the result of {operator!r} is not whole yet: job {job_id!r} is {status}. Read it when the job has FINISHED, "
        "for example after its task"
    )


class JobNotDeletedError(DeletionRefusedError, InvalidInputError):
    """Error for a deletion that was refused before anything was deleted."""


class StagedOutputLeftError(DeletionRefusedError, TransientError):
    """Error for a deletion that has begun but could not delete staged output. The job can no longer run."""

    template = (
        "the staged output of sink {sink} of job {job_id!r} could not be deleted: {cause}. Delete the job again to "
        "complete it (`{delete}`), with its definition if the sink has storage options of its own. If the target is "
        "gone for good, leave its staged output: add --keep-staged (in Python keep_staged=True)"
    )


class RestoreRefusedError(InvalidInputError):
    template = "cannot restore job {job_id!r} from {restore!r}: {reason}"


class FrozenSplitsLostError(TerminalError):
    template = (
        "{uri} {problem}. It lists the splits of a source, and which of them were read is known by their places in it: "
        "put it back from a backup, or run the job under another id"
    )
