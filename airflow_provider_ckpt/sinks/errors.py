"""Errors of sinks: in their settings and rows, and while they stage and release. They show no row and no secret."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class InvalidSinkError(InvalidInputError):
    """The settings or the connection of a sink cannot work."""

    template = "{sink} cannot be used: {setting}={value!r} {reason}"


class MissingPackageError(InvalidInputError):
    """A library of a sink is not installed."""


class SinkInputError(InvalidInputError):
    """A sink cannot write its input: a column's name or type, or the output mode, does not fit."""

    template = "Sink {sink} cannot write its input: {problem}. {advice}."


class TargetRefusedError(InvalidInputError):
    """The target, in its current state, cannot accept the rows. Nothing was staged."""


class OutputLostError(InvalidInputError):
    """Released output, or its record in the journal, is gone. A run would lose or repeat rows."""


class SinkContractError(TerminalError):
    """A sink or its caller broke the contract of :class:`~airflow_provider_ckpt.sinks.sink.Sink`."""


class RowsRefusedError(TerminalError):
    """The target or its format does not accept the rows or options. Nothing of the batch was staged."""


class StagedRowCountError(TerminalError):
    """The number of staged files contradicts the number of counted rows. Rows could be lost."""

    template = (
        "Batch {handle} was staged in {uri} with {rows} rows in {files} files, which cannot be; nothing was "
        "published. Rows without files: the driver and the executors do not see the same folder (a local path on a "
        "cluster?). Files without rows: the frame was not the one that was counted."
    )


class StagedFileUnusableError(TerminalError):
    """A file that was just staged is unreadable or lacks data that its release needs."""

    template = "The staged file {uri} cannot be used: {problem}; nothing was published"


class UnknownHandleError(TerminalError):
    """This version of the package cannot read the format of a handle."""

    template = (
        "A staged handle has format {format!r:.80} version {version!r:.80}; this version reads {known!r} up to version "
        "1. Release it with the version of airflow-provider-ckpt that staged it, or upgrade."
    )


class DamagedHandleError(TerminalError):
    """A handle in a subtask's log lacks a field or has a damaged field."""

    template = (
        "The log of job {job!r} has a damaged entry for a batch that sink {sink} has staged: {problem} "
        "({handle!s:.500}). Nothing was released because of it: bring the job's folder back from a backup and resume "
        "with --resume-failed, or run the job under another id, from its input."
    )


class StagedElsewhereError(TerminalError):
    """The target of a sink was changed while staged rows wait for their release in the old target."""

    template = (
        "Sink {sink} writes to {uri} now, but batch {handle!s:.200} was staged for {staged_for!s:.500}. Point the sink "
        "back to {staged_for!s:.500} until its checkpoint is released; then change the target."
    )


class StagedFilesMissingError(TerminalError):
    """Staged files were deleted: they are neither in their staged place nor at their final name."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: staged files are gone ({count} in "
        "all), the first is {path!r} in {uri}. Something other than this job deleted them (a clean-up of '_ckpt…' "
        "folders?). Bring them back and resume with --resume-failed, or run the job under another id, from its input."
    )


class StagedDataDamagedError(TerminalError):
    """Staged data has changed: the disk lost data, or another writer changed the data."""


class ReleaseRefusedError(TerminalError):
    """The target refuses a release that it allowed when the rows were staged. The rows stay staged."""


class ReleaseRecordLostError(TerminalError):
    """The target's record of releases is gone, damaged, set back or recreated. A release would repeat or lose rows."""

    template = (
        "The release log {uri} has lost entries: {problem}. Something deleted them (an expiry rule of the bucket, a "
        "clean-up of '_ckpt…' folders?) or overwrote them. Nothing was released or left out because of it. Bring "
        "them back and resume with --resume-failed, or start from scratch with another job id and folder."
    )


class ForeignReleaseError(TerminalError):
    """The target has released this checkpoint's number without this job's rows, for another job of the same name."""

    template = (
        "Sink {sink} at {uri} has released checkpoint {newest} without batch {handle}, which belongs to checkpoint "
        "{checkpoint}: another job of this name releases there, from another root. Nothing was lost: the batch stays "
        "staged. Stop one of the two, and give it another job id or target."
    )


class OutputSupersededError(TerminalError):
    """Another job has replaced this job's output. A further release is refused, because it would mix both outputs."""


class SinkUnavailableError(TransientError):
    """The target did not answer or was in use. The operation may or may not have taken effect."""


class GarbageLeftError(TransientError):
    """Garbage of a sink could not be deleted. ``data`` has the ids, as ``deleted`` and ``left``.

    The remaining garbage harms no run. A driver that takes the job over reports this error and continues.
    """

    template = (
        "Sink {sink} of job {job!r} cannot delete {count} of its staged leftovers, the first is {path!r}: {cause} They "
        "are tried again when the job is next started or deleted."
    )
