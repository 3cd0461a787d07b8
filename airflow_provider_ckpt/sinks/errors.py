"""Errors of sinks: what they are given, stage and release."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class IllegalStageRequestError(TerminalError):
    """The runner asked to stage under a name that cannot be kept apart from others."""

    template = (
        "Cannot stage a batch: {part} is {value!r}. It becomes part of a file name: an attempt has at most 150 "
        "letters, digits, '_', '.', '~', '-' and no dot or dash in front, a nonce at most 40 letters and digits, "
        "a batch id is >= 0."
    )


class InvalidSinkError(InvalidInputError):
    """A sink was described in a way that cannot work. ``setting``, ``value``, ``reason``."""

    template = "{sink} cannot be used: {setting}={value!r} {reason}"


class SinkInputError(InvalidInputError):
    """What flows into a sink cannot be written there."""

    template = "Sink {sink} cannot write what it is given: {problem}. {advice}."


class SinkAnswerError(TerminalError):
    """A sink of somebody's own returned what its base class does not allow: another try would return the same."""

    template = "sink {sink!r} ({kind}) returned from {call}() {problem}; it has to be {needed}"


class StagedFilesMissingError(TerminalError):
    """Staged files are neither in their staged place nor at their final name: somebody deleted them."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: staged files are gone ({count} in "
        "all), the first is {path!r} in {uri}. Something other than this job deleted them (a clean-up of '_ckpt…' "
        "folders?). Bring them back and go on with --resume-failed, or run the job under another id, from its input."
    )


class StagedFileChangedError(TerminalError):
    """A staged file has not the size it was staged with: a disk that lost what it had confirmed, or somebody wrote."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {path!r} in {uri} was staged with "
        "{expected} bytes and has {found}. Nothing of the checkpoint was released. Bring the file back and go on with "
        "--resume-failed, or run the job under another id, from its input."
    )


class GarbageLeftError(TransientError):
    """All of a sink's garbage was deleted that can be. It is in nobody's way: a driver that takes the job over tells of
    it, and goes on. ``deleted``, ``left``: ids."""

    template = (
        "Sink {sink} of job {job!r} cannot delete {count} of its staged leftovers, the first is {path!r}: {cause} They "
        "are tried again when the job is next started or deleted."
    )


class ReleaseLogDamagedError(TerminalError):
    """Entries of a log that only grows are gone or damaged. Taken for an earlier end, rows would be repeated or
    forgotten."""

    template = (
        "The release log {uri} has lost entries: {problem}. Something deleted them (an expiry rule of the bucket, a "
        "clean-up of '_ckpt…' folders?) or wrote over them. Nothing was released or left out on account of it. Bring "
        "them back and go on with --resume-failed, or begin anew with another job id and folder."
    )


class StagedElsewhereError(TerminalError):
    """The sink's target was changed while staged rows wait for their release in the old one."""

    template = (
        "Sink {sink} writes to {uri} now, but batch {handle!s:.200} was staged for {staged_for!s:.500}. Point the sink "
        "back to {staged_for!s:.500} until its checkpoint is released; then change the target."
    )


class OutputNotEmptyError(InvalidInputError):
    """The sink's mode does not allow what the folder holds; said before anything is written."""

    template = "Sink {sink} of job {job_id!r} cannot write to {uri}: {held}. {ways}"


class SharedColumnsError(InvalidInputError):
    """Data: sink, folder, other, differ."""

    template = (
        "Sink {sink} cannot write to {folder}, because readers take the folder for one table, and {other} has other "
        "columns: {differ}. Give each a folder of its own, or select the same columns, in the same order and of the "
        "same types"
    )


class ReleaseLogLeftError(InvalidInputError):
    """The table's folder was deleted, and the folder beside it was not."""

    template = (
        "Sink {sink} cannot write to {uri}: that folder was deleted, and {books} still lists what was released there. "
        "To start from scratch, delete {books}, too"
    )


class OutputTakenMeanwhileError(TerminalError):
    """The folder was empty when the job started, and another job released there before this one's first release."""

    template = (
        "The first release of sink {sink} of job {job_id!r} to {uri} is refused: meanwhile {held}. {ways} Nothing was "
        "released; the rows stay staged, and a job with the same id releases them when mode or folder allow it."
    )


class OutputSupersededError(TerminalError):
    """Another job overwrote the folder after this one: its rows are replaced, and more of them would be a mixture."""

    template = (
        "Sink {sink} of job {job_id!r} is superseded at {uri}: job {by!r} (sink {by_sink}) overwrites what this job "
        "released or was about to release. Nothing more of it is released. If this job's rows are the ones that are "
        "wanted, run it anew under a new job id."
    )


class ForeignReleaseError(TerminalError):
    """Another job releases under the same name: its release stands where this one's belongs."""

    template = (
        "Sink {sink} at {uri} has released checkpoint {newest} without batch {handle}, which belongs to checkpoint "
        "{checkpoint}: another job of this name releases there, from another root. Nothing was lost: the batch stays "
        "staged. Stop one of the two, and give it another job id or target."
    )


class BlankLineError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} holds nothing (null, or a blank text) in {columns}, so that its line of "
        "CSV is blank, and Spark leaves such a line out: the row would be lost. Nothing of the batch was staged: "
        "leave such rows out, or put a text in the place of the null (coalesce), and go on with --resume-failed; a new "
        "job may say options={{'nullValue': …}}"
    )


class WriterOptionsError(TerminalError):
    """Without their values, which may be secrets. Data: sink, job, format, options (names)."""

    template = (
        "sink {sink!r} of job {job!r}: Spark's writer of {format} does not take what is given for its options "
        "{options}, and fails without any rows, too. Nothing of the batch was staged. Mend them and go on with "
        "--resume-failed; one that decides how files are read (header, sep, …) cannot change in a job that has begun: "
        "run it under another id"
    )


class PartitionValueTooLongError(TerminalError):
    """Data: sink, job, handle, column, bytes (of the folder's name)."""

    template = (
        "sink {sink!r} of job {job!r}: a row of batch {handle} has a value in {column!r}, by which its output is "
        "partitioned, that is too long for the name of a folder: as Spark writes it the name has {bytes} bytes, and "
        "file systems take 255. Nothing of the batch is acknowledged or visible, and none of it is lost. Shorten such "
        "values in the job (left, sha2) and go on with --resume-failed; a new job may partition by another column."
    )


class StagedRowCountError(TerminalError):
    """The rows counted and the files found do not fit: going on could lose rows."""

    template = (
        "Batch {handle} was staged in {uri} with {rows} rows in {files} files, which cannot be; nothing was "
        "published. "
        "Rows without files: the driver and the executors do not see the same folder (a local path on a cluster?). "
        "Files without rows: the frame was not the one that was counted."
    )


class UnreadableFooterError(TerminalError):
    """A Parquet file that was just written does not show its row count."""

    template = (
        "The footer of {uri} cannot be read ({reason}); nothing was published. If the files are encrypted, give "
        "the parquet.encryption options to the FileSink itself: its rows are then counted while they are written."
    )


class UnknownHandleError(TerminalError):
    """A staged handle was made by something this version does not read."""

    template = (
        "A staged handle has format {format!r:.80} version {version!r:.80}; this version reads {known!r} up to version "
        "1. Release it with the version of airflow-provider-ckpt that staged it, or upgrade."
    )


class DamagedHandleError(TerminalError):
    """What a subtask's log says of a staged batch lacks something. Data: sink, job, handle, problem."""

    template = (
        "What the log of job {job!r} says of a batch that sink {sink} has staged is not what was written: {problem} "
        "({handle!s:.500}). Nothing was released on account of it: bring the job's folder back from a backup and go on "
        "with --resume-failed, or run the job under another id, from its input."
    )


class OutputAheadError(InvalidInputError):
    """The root is an older copy of itself, or its journal has lost its end. Data: sink, known, completed."""

    template = (
        "sink {sink!r} has released checkpoint {known}, and the newest one that the journal knows of is {completed}: "
        "the root is an older copy, or another root has a job of this id. Going on would release rows once more that "
        "are in the output already. Nothing was written: bring the newer root back, or run the job under another id "
        "into another target"
    )


class OutputLostError(InvalidInputError):
    template = (
        "sink {sink!r} knows of {known} as its last released checkpoint, and the journal of {released}: its folder or "
        "table, or the records of its releases, were taken away or emptied. Bring them back, or run the job under "
        "another id"
    )
