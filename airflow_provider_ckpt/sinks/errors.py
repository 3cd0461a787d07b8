"""Errors of sinks: in their settings and rows, and while they stage and release."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class IllegalStageRequestError(TerminalError):
    """The runner asked to stage under a name that may collide with another one."""

    template = (
        "Cannot stage a batch: {part} is {value!r}. It becomes part of a file name: an attempt has at most 150 "
        "letters, digits, '_', '.', '~', '-' and no dot or dash in front, a nonce at most 40 letters and digits, "
        "a batch id is >= 0."
    )


class InvalidSinkError(InvalidInputError):
    """The settings of a sink cannot work. Data: sink, setting, value, reason."""

    template = "{sink} cannot be used: {setting}={value!r} {reason}"


class SinkInputError(InvalidInputError):
    """The rows that flow into a sink cannot be written there."""

    template = "Sink {sink} cannot write its input: {problem}. {advice}."


class SinkAnswerError(TerminalError):
    """A sink returned a value that its base class does not allow. Another try would return the same."""

    template = "sink {sink!r} ({kind}) returned from {call}() {problem}; it has to be {needed}"


class StagedFilesMissingError(TerminalError):
    """Staged files are neither in their staged place nor at their final name, because something deleted them."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: staged files are gone ({count} in "
        "all), the first is {path!r} in {uri}. Something other than this job deleted them (a clean-up of '_ckpt…' "
        "folders?). Bring them back and resume with --resume-failed, or run the job under another id, from its input."
    )


class StagedFileChangedError(TerminalError):
    """A staged file does not have the size it was staged with: the disk lost data, or another writer changed it."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {path!r} in {uri} was staged with "
        "{expected} bytes and has {found}. Nothing of the checkpoint was released. Bring the file back and resume with "
        "--resume-failed, or run the job under another id, from its input."
    )


class GarbageLeftError(TransientError):
    """Some of a sink's garbage could not be deleted; the rest was.

    The leftovers harm no run. A driver that takes the job over reports them and continues. Data: sink, job, count,
    path, cause; ``deleted`` and ``left`` (ids).
    """

    template = (
        "Sink {sink} of job {job!r} cannot delete {count} of its staged leftovers, the first is {path!r}: {cause} They "
        "are tried again when the job is next started or deleted."
    )


class ReleaseLogDamagedError(TerminalError):
    """Entries of an append-only log are gone or damaged. A release that ignored this would repeat or lose rows."""

    template = (
        "The release log {uri} has lost entries: {problem}. Something deleted them (an expiry rule of the bucket, a "
        "clean-up of '_ckpt…' folders?) or overwrote them. Nothing was released or left out because of it. Bring "
        "them back and resume with --resume-failed, or start from scratch with another job id and folder."
    )


class StagedElsewhereError(TerminalError):
    """The sink's target was changed while staged rows wait for their release in the old one."""

    template = (
        "Sink {sink} writes to {uri} now, but batch {handle!s:.200} was staged for {staged_for!s:.500}. Point the sink "
        "back to {staged_for!s:.500} until its checkpoint is released; then change the target."
    )


class OutputNotEmptyError(InvalidInputError):
    """The sink's mode does not allow the files that the folder holds. Nothing was written."""

    template = "Sink {sink} of job {job_id!r} cannot write to {uri}: {held}. {ways}"


class SharedColumnsError(InvalidInputError):
    """Two writers of one folder have different columns. Data: sink, folder, other, differ."""

    template = (
        "Sink {sink} cannot write to {folder}, because readers take the folder for one table, and {other} has other "
        "columns: {differ}. Give each a folder of its own, or select the same columns, in the same order and of the "
        "same types"
    )


class ReleaseLogLeftError(InvalidInputError):
    """The table's folder was deleted, but not its bookkeeping folder."""

    template = (
        "Sink {sink} cannot write to {uri}: that folder was deleted, and {books} still lists what was released there. "
        "To start from scratch, delete {books}, too"
    )


class OutputTakenMeanwhileError(TerminalError):
    """Another job released to the folder after this job started and before its first release."""

    template = (
        "The first release of sink {sink} of job {job_id!r} to {uri} is refused: meanwhile {held}. {ways} Nothing was "
        "released; the rows stay staged, and a job with the same id releases them when mode or folder allow it."
    )


class OutputSupersededError(TerminalError):
    """Another job has overwritten the folder, so this job's rows are replaced. More rows would mix both outputs."""

    template = (
        "Sink {sink} of job {job_id!r} is superseded at {uri}: job {by!r} (sink {by_sink}) overwrites what this job "
        "released or was about to release. This job releases nothing further. If its rows are the wanted ones, run it "
        "again under a new job id."
    )


class ForeignReleaseError(TerminalError):
    """Another job releases under the same name. Its release holds the number that this job's release needs."""

    template = (
        "Sink {sink} at {uri} has released checkpoint {newest} without batch {handle}, which belongs to checkpoint "
        "{checkpoint}: another job of this name releases there, from another root. Nothing was lost: the batch stays "
        "staged. Stop one of the two, and give it another job id or target."
    )


class BlankLineError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} holds nothing (null, or a blank text) in {columns}, so that its line of "
        "CSV is blank, and Spark leaves such a line out: the row would be lost. Nothing of the batch was staged: "
        "leave such rows out, or replace the null by a text (coalesce), and resume with --resume-failed; a new "
        "job may set options={{'nullValue': …}}"
    )


class WriterOptionsError(TerminalError):
    """Spark's writer refuses options of a sink. Values of options may be secret.

    Data: sink, job, format, options (names).
    """

    template = (
        "sink {sink!r} of job {job!r}: Spark's writer of {format} refuses the values of its options "
        "{options}, and fails without any rows, too. Nothing of the batch was staged. Correct them and resume with "
        "--resume-failed; an option that decides how files are read (header, sep, …) cannot change once a job has "
        "begun: run the job under another id"
    )


class PartitionValueTooLongError(TerminalError):
    """A partition value is too long for a folder's name.

    Data: sink, job, handle, column, bytes (of the folder's name).
    """

    template = (
        "sink {sink!r} of job {job!r}: a row of batch {handle} has a value in {column!r}, by which its output is "
        "partitioned, that is too long for the name of a folder: as Spark writes it the name has {bytes} bytes, and "
        "file systems take 255. Nothing of the batch is acknowledged or visible, and none of it is lost. Shorten such "
        "values in the job (left, sha2) and resume with --resume-failed; a new job may partition by another column."
    )


class StagedRowCountError(TerminalError):
    """The number of rows counted and the number of files found contradict each other, so rows could be lost."""

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
    """A staged handle has a format that this version does not read."""

    template = (
        "A staged handle has format {format!r:.80} version {version!r:.80}; this version reads {known!r} up to version "
        "1. Release it with the version of airflow-provider-ckpt that staged it, or upgrade."
    )


class DamagedHandleError(TerminalError):
    """The entry of a staged batch in a subtask's log lacks something. Data: sink, job, handle, problem."""

    template = (
        "The log of job {job!r} has a damaged entry for a batch that sink {sink} has staged: {problem} "
        "({handle!s:.500}). Nothing was released because of it: bring the job's folder back from a backup and resume "
        "with --resume-failed, or run the job under another id, from its input."
    )


class OutputAheadError(InvalidInputError):
    """A sink has released a checkpoint that the journal does not know.

    The root is an older copy, or its journal lost its end. Data: sink, known (to the sink), completed (in the journal).
    """

    template = (
        "sink {sink!r} has released checkpoint {known}, and the newest that the journal knows is {completed}: "
        "the root is an older copy, or another root has a job of this id. A run would release rows again that "
        "are in the output already. Nothing was written: bring the newer root back, or run the job under another id "
        "into another target"
    )


class OutputLostError(InvalidInputError):
    template = (
        "sink {sink!r} has {known} as its last released checkpoint, and the journal has {released}: its folder or "
        "table, or the records of its releases, were deleted or emptied. Bring them back, or run the job under "
        "another id"
    )
