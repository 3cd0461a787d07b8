"""Errors of sinks: in their settings and rows, and while they stage and release. They show no row and no secret."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class InvalidSinkError(InvalidInputError):
    """The settings or the connection of a sink cannot work."""

    template = "{sink} cannot be used: {setting}={value!r} {reason}"


class MissingPackageError(InvalidInputError):
    """A library of a sink is not installed."""


class SinkInputError(InvalidInputError):
    """The rows that flow into a sink cannot be written there."""

    template = "Sink {sink} cannot write its input: {problem}. {advice}."


class TargetRefusedError(InvalidInputError):
    """A target that cannot take the rows in its current state. Nothing was staged."""


class OutputLostError(InvalidInputError):
    """Released output, or the journal's knowledge of it, is gone. A run would lose or repeat rows."""


class SinkContractError(TerminalError):
    """A sink or its caller broke the contract of :class:`~airflow_provider_ckpt.sinks.sink.Sink`."""


class RowsRefusedError(TerminalError):
    """Rows or options that the target or its format does not take. Nothing of the batch was staged."""


class StagedRowCountError(TerminalError):
    """Staged files that do not agree with the number of counted rows. Rows could be lost."""

    template = (
        "Batch {handle} was staged in {uri} with {rows} rows in {files} files, which cannot be; nothing was "
        "published. Rows without files: the driver and the executors do not see the same folder (a local path on a "
        "cluster?). Files without rows: the frame was not the one that was counted."
    )


class StagedFileUnusableError(TerminalError):
    """A file that was just written lacks what its release needs."""

    template = "The staged file {uri} cannot be used: {problem}; nothing was published"


class UnknownHandleError(TerminalError):
    """A staged handle has a format that this version does not read."""

    template = (
        "A staged handle has format {format!r:.80} version {version!r:.80}; this version reads {known!r} up to version "
        "1. Release it with the version of airflow-provider-ckpt that staged it, or upgrade."
    )


class DamagedHandleError(TerminalError):
    """The entry of a staged batch in a subtask's log that lacks a field or holds a damaged one."""

    template = (
        "The log of job {job!r} has a damaged entry for a batch that sink {sink} has staged: {problem} "
        "({handle!s:.500}). Nothing was released because of it: bring the job's folder back from a backup and resume "
        "with --resume-failed, or run the job under another id, from its input."
    )


class StagedElsewhereError(TerminalError):
    """A sink whose target was changed while staged rows wait for their release in the old target."""

    template = (
        "Sink {sink} writes to {uri} now, but batch {handle!s:.200} was staged for {staged_for!s:.500}. Point the sink "
        "back to {staged_for!s:.500} until its checkpoint is released; then change the target."
    )


class StagedFilesMissingError(TerminalError):
    """Staged files that were deleted: they are neither in their staged place nor at their final name."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: staged files are gone ({count} in "
        "all), the first is {path!r} in {uri}. Something other than this job deleted them (a clean-up of '_ckpt…' "
        "folders?). Bring them back and resume with --resume-failed, or run the job under another id, from its input."
    )


class StagedDataDamagedError(TerminalError):
    """Staged data that differs from what was staged: the disk lost data, or another writer changed the data."""


class ReleaseRefusedError(TerminalError):
    """A release that the target refuses now and allowed when the rows were staged. The rows stay staged."""


class ReleaseRecordLostError(TerminalError):
    """A target, or its record of releases, that the job has not used before. A release would repeat or lose rows."""

    template = (
        "The release log {uri} has lost entries: {problem}. Something deleted them (an expiry rule of the bucket, a "
        "clean-up of '_ckpt…' folders?) or overwrote them. Nothing was released or left out because of it. Bring "
        "them back and resume with --resume-failed, or start from scratch with another job id and folder."
    )


class ForeignReleaseError(TerminalError):
    """A release of another job under the same name, with the number that this job's release needs."""

    template = (
        "Sink {sink} at {uri} has released checkpoint {newest} without batch {handle}, which belongs to checkpoint "
        "{checkpoint}: another job of this name releases there, from another root. Nothing was lost: the batch stays "
        "staged. Stop one of the two, and give it another job id or target."
    )


class OutputSupersededError(TerminalError):
    """Error of a job whose output another job has replaced.

    The job releases nothing further, because more rows of it would mix both outputs.
    """


class SinkUnavailableError(TransientError):
    """A target that did not answer or was in use. The operation may or may not have taken effect."""


class GarbageLeftError(TransientError):
    """Garbage of a sink that could not be deleted. ``data``: ``deleted`` and ``left`` (ids).

    The remaining garbage harms no run. A driver that takes the job over reports it and continues.
    """

    template = (
        "Sink {sink} of job {job!r} cannot delete {count} of its staged leftovers, the first is {path!r}: {cause} They "
        "are tried again when the job is next started or deleted."
    )
