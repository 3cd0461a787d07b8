"""Every error of this package, under one root.

An error is built from data, not from a sentence: the data is kept in :attr:`CkptError.data`, the
message is made from :attr:`CkptError.template`, and an error survives pickling (Spark and Airflow
both pickle exceptions). The message says what is wrong, with which value, and what to do next.

Two branches answer the only question a caller has to ask:

* :class:`TransientError`: trying again may help (Airflow should retry);
* :class:`TerminalError`: trying again gives the same answer (Airflow should fail the task).
"""

from __future__ import annotations

from typing import Any, ClassVar


class CkptError(Exception):
    """Root of every error this package raises. ``str(error)`` never holds a secret."""

    template: ClassVar[str] = "{message}"
    retryable: ClassVar[bool] = False

    def __init__(self, **data: Any) -> None:
        self.data = data
        super().__init__(self.template.format(**data))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.data))


def _rebuild(kind: type[CkptError], data: dict[str, Any]) -> CkptError:
    return kind(**data)


class TransientError(CkptError):
    """Trying again may help."""

    retryable = True


class TerminalError(CkptError):
    """Trying again gives the same answer."""


class InvalidInputError(TerminalError):
    """What the user gave was refused, before anything was written (``ckpt`` exits with 2)."""


# ---- partitions: subtask logs


class UnknownRecordError(TerminalError):
    template = (
        "the subtask log holds a record of type {kind!r}, which this version does not know; "
        "run the job with the version that wrote it, or a newer one"
    )


class BatchConflictError(TerminalError):
    """R1: an entry for a known batch id is a no-op when its offsets are equal, a hard error otherwise."""

    template = (
        "batch {batch_id} of {log} is published with offsets {published}, and now came with {offered}; "
        "the Spark checkpoint folder and the log have parted: restore from a checkpoint instead of resuming"
    )


class BatchGapError(TerminalError):
    template = (
        "batch {batch_id} of {log} was offered after batch {last}; the Spark checkpoint folder and the log "
        "have parted: restore from a checkpoint instead of resuming"
    )


class EndedLogError(TerminalError):
    template = "{log} is at its {end}; a {record} cannot follow it (R11)"


class SubtaskLogLostError(TerminalError):
    """Entries that a completed checkpoint covers are gone: going on would read and release their rows once more."""

    template = (
        "{log} ends before entry {next}, and checkpoint {checkpoint} covers it up to entry {covered}: entries were "
        "removed; bring them back from a backup, or run the job under another id"
    )


class PartitionFilesDamagedError(TerminalError):
    template = (
        "{uri} was published with {size} bytes and {found}; its rows would be lost to whoever reads the partition: put "
        "it back as it was and start the job with --resume-failed, or run the job under another id"
    )


class LogFencedError(TerminalError):
    """A later attempt of the subtask opened the log: this attempt must stop at once (R3)."""

    template = "{log} was taken over by attempt {attempt} of epoch {epoch}; this attempt is fenced and stops"


# ---- job: what the user wrote (job/)


class InvalidJobError(InvalidInputError):
    """The job, as it was written, cannot be run."""


class IllegalUidError(InvalidJobError):
    template = (
        "operator uid {uid!r} ({location}) is not usable: it must be 1 to {longest} letters (A-Z, a-z), "
        "digits or "
        'underscores, because it names a Spark source and a folder. Give the operator one with uid="...".'
    )


class DuplicateUidError(InvalidJobError):
    template = (
        "uid {uid!r} ({location}) is taken by the {other_kind} {other!r} ({other_location}). Uids of "
        "sources, "
        "transforms and sinks of a job must differ in more than case: give one of the two another uid."
    )


class EdgeNameTakenError(InvalidJobError):
    template = (
        "operator uid {uid!r} ({location}) is also the name of the edge {producer} -> {consumer}. "
        "Give the operator another uid (best without a double underscore)."
    )


class BadInputsError(InvalidJobError):
    template = (
        "{operator!r} ({location}): {value} is no input. Give operators of this job (or their uids) as "
        "inputs=[a, b], "
        'or by parameter name as inputs={{"orders": [a, b], "customers": c}}.'
    )


class MissingInputsError(InvalidJobError):
    template = "{operator!r} ({location}) has no input. Say what it reads: {example}."


class DuplicateInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}) has {input!r} as an input twice, but a Spark query can name a source "
        "only once. "
        "Put a transform between that returns its input unchanged, and use that as the second input."
    )


class ForeignInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}): its input {input!r} ({input_location}) is an operator of another Job. "
        "An operator reads operators of its own job only: define both with the same Job object."
    )


class UnknownInputError(InvalidJobError):
    template = "{operator!r} ({location}): the job has no operator {input!r} to read from.{suggestion} It has: {known}."


class SinkAsInputError(InvalidJobError):
    template = (
        "{operator!r} ({location}): its input {input!r} ({input_location}) is a sink, and nothing comes out "
        "of a "
        "sink. Read the sink's own input, {instead!r}."
    )


class CyclicJobError(InvalidJobError):
    template = "the operators {cycle} feed each other in a circle ({location}). Remove one of these inputs."


class BadSignatureError(InvalidJobError):
    template = "{operator!r} ({location}): {function}{signature} does not fit: {problem}. It is called as {call}."


class BadOperatorOptionError(InvalidJobError):
    template = "{operator!r} ({location}): {option}={value!r} is not possible; expected {expected}."


class NotASinkError(InvalidJobError):
    template = (
        "sink {operator!r} ({location}): {value} is no sink. Give a sink object, "
        'such as FileSink("/lake/orders"): an object of a class that inherits '
        "airflow_provider_ckpt.sinks.sink.Sink."
    )


class IncompleteJobError(InvalidJobError):
    template = "job {job!r} has no {missing}. Add one with {example}."


class UnusedOperatorError(InvalidJobError):
    template = (
        "{operator!r} ({location}) leads to no sink, so nobody would see what it computes. "
        "Give it a sink, use it as an input, or remove it."
    )


class UnboundedBatchError(InvalidJobError):
    template = (
        "mode 'batch' needs bounded sources only, but {sources} of job {job!r} never end. "
        "Use mode 'auto' or 'streaming', or declare them with bounded=True."
    )


class BadParamError(InvalidJobError):
    template = "job {job!r} ({location}): the {what} of a parameter is not possible; expected {expected}."


class MissingParamError(InvalidJobError):
    template = (
        "job {job!r} ({location}) needs the parameter {name!r}, which this run does not give.{suggestion} "
        'Given: {given}. Give it with --param {name}=VALUE or job_params={{"{name}": "VALUE"}}, or write a default: '
        'job.param("{name}", default="VALUE").'
    )


class LateParamError(InvalidJobError):
    template = (
        "job {job!r} ({location}) asks for the parameter {name!r} inside a function, and did not when its "
        'file was read. Write NAME = job.param("{name}") at the top level of the file and use NAME. '
        "Asked for there: {known}."
    )


class UnknownParamError(InvalidInputError):
    template = "the job {reference!r} has no parameter {name!r}.{suggestion} It asks for: {known}."


class StaleJobError(InvalidInputError):
    """A module that the job's module imports was imported before, with the parameters of that time."""

    template = (
        "the job {reference!r} was made by a module that was imported earlier in this process, so the parameters "
        "of this run would not reach it. Define the job in the file or module that the reference names."
    )


class UnknownVertexError(InvalidJobError):
    template = "parallelism is given for {vertex!r}, which is the output operator of no vertex. Vertices: {known}."


class UnknownOptionError(InvalidInputError):
    template = "{where} has no option {option!r}.{suggestion} It has: {known}."


class BadOptionError(InvalidInputError):
    template = "option {option}={value!r} is not possible; expected {expected}."


class ConflictingOptionsError(InvalidInputError):
    template = "the options {options} exclude each other: a run ends in one way. Give one of them."


class BadDurationError(InvalidInputError):
    template = (
        '{option}: {value!r} is no duration. Write a number of seconds (30, 0.5), a text such as "500ms", '
        '"30s", '
        '"1m30s", "2h", "1 day", or a timedelta; not negative.'
    )


class BadSizeError(InvalidInputError):
    template = (
        '{option}: {value!r} is no size. Write a whole number of bytes (67108864) or a text such as "512k", '
        '"64m", '
        '"1.5g" (powers of 1024); not negative.'
    )


class BadStorageOptionsError(InvalidInputError):
    """Never holds the content, which may be secret."""

    template = "the environment variable {variable} {problem}. It must be one JSON object of storage options."


class UnsupportedOptionsFormatError(InvalidInputError):
    template = (
        "run options of format {format!r}, version {version!r} cannot be read here (known: {known!r} up to "
        "version "
        "{newest}). Use the same version of airflow-provider-ckpt on both sides."
    )


class JobReferenceError(InvalidInputError):
    """The reference of a job ("pipelines/orders.py:job", "package.module:job") leads to no job."""

    template = "job reference {reference!r} {problem}. {hint}"


class JobNotFoundError(JobReferenceError):
    """No such file, module or attribute."""


class JobImportError(JobReferenceError):
    """The user's code raised while it was loaded; its own error is the ``__cause__``."""

    template = "job reference {reference!r}: loading it failed at {location}: {error}"


# ---- sinks


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


class StagedFilesMissingError(TerminalError):
    """Staged files are neither in their staged place nor at their final name: somebody deleted them."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {count} staged file(s) are gone, "
        "the first is {path!r} in {uri}. Something other than this job deleted them (a clean-up of '_ckpt' folders?). "
        "Bring them back, or restore the job from a checkpoint before their batch."
    )


class StagedFileChangedError(TerminalError):
    """A staged file has not the size it was staged with: a disk that lost what it had confirmed, or somebody wrote."""

    template = (
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {path!r} in {uri} was staged with "
        "{expected} bytes and has {found}. Nothing of the checkpoint was released. Bring the file back, or restore the "
        "job from a checkpoint before its batch."
    )


class ReleaseLogDamagedError(TerminalError):
    """Entries of a log that only grows are gone. Taken for an earlier end, rows would be repeated or forgotten."""

    template = (
        "The release log {uri} has lost entries: {problem}. Something deleted them (an expiry rule of the bucket, a "
        "clean-up of '_ckpt' folders?). Nothing was released or left out on account of it. Bring them back, or begin "
        "anew with another folder."
    )


class StagedElsewhereError(TerminalError):
    """The sink's target was changed while staged rows wait for their release in the old one."""

    template = (
        "Sink {sink} writes to {uri} now, but batch {handle} was staged for {staged_for}. Point the sink back to "
        "{staged_for} until its checkpoint is released; then change the target."
    )


class OutputLostError(InvalidInputError):
    template = (
        "sink {sink!r} knows of {known} as its last released checkpoint, and the journal of {released}: its folder, or "
        "the records of its releases, were taken away or emptied. Bring them back, or run the job under another id"
    )


class OutputTakenError(InvalidInputError):
    """The job is new under its root, and its sink holds releases: the root was moved, wiped or mistaken. The sink
    would take the new job's first checkpoints for released already, and leave their rows out."""

    template = (
        "Sink {sink} of job {job_id!r} holds what a job of that name released up to checkpoint {released}, and under "
        "the root {root} there is no such job yet. Go on with the root it ran with, or begin anew with another job "
        "id or an empty target."
    )


class OutputNotEmptyError(InvalidInputError):
    """The sink's mode does not allow what the folder holds; said before anything is written."""

    template = "Sink {sink} of job {job_id!r} cannot write to {uri}: {held}. {ways}"


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
        "A staged handle has format {format!r} version {version!r}; this version reads {known!r} up to version 1. "
        "Release it with the version of airflow-provider-ckpt that staged it, or upgrade."
    )


# ---- Airflow side, requests


class UnknownRequestKindError(InvalidInputError):
    template = "A job can be asked to {known}, not to {kind!r}."


class NoCheckpointRootError(InvalidInputError):
    template = (
        "There is no checkpoint root: the Airflow connection {conn_id!r} does not exist or names no root. "
        "Create it with type ckpt and the root URI as its host (s3://bucket/prefix, /shared/folder), "
        "or give root= to the Airflow operator."
    )


class InvalidCkptConnectionError(InvalidInputError):
    template = "The Airflow connection {conn_id!r} (type ckpt) cannot be used: {problem}."


class SparkConnectionMissingError(InvalidInputError):
    template = (
        "The Airflow connection {conn_id!r}, which says where Spark runs, does not exist. Create it with type spark "
        "and the master as its host (local[*], spark://host:7077, yarn, k8s://...), or name another one with conn_id=."
    )


class NoSuchJobError(InvalidInputError):
    template = "There is no job {job_id!r} under {root}: nothing was ever journaled for it."


class JobNotRunningError(InvalidInputError):
    template = "Job {job_id!r} cannot be asked to {kind}: its status is {status}, no driver would answer."


class InvalidTaskArgumentError(InvalidInputError):
    template = "{argument}={value!r} cannot be used: {problem}."


# ---- coordinator


class InvalidCheckpointOptionError(InvalidInputError):
    """A checkpoint option cannot work. Data: option, value, must."""

    template = "checkpoint option {option} is {value!r}, but it must {must}: change it where the job is run"


class IllegalGraphChangeError(InvalidInputError):
    """The job's graph cannot go on from the checkpoint (rules of ``coordinator.finished``)."""


class MixedFinishedStateError(IllegalGraphChangeError):
    """Data: vertex, first, first_state, other, other_state."""

    template = (
        "vertex {vertex} chains {first} ({first_state} in the checkpoint) with {other} ({other_state}): a chain "
        "is restored as one (rule 1); give one of the two chain=False, or a new uid so that it starts empty"
    )


class FinishedAfterRunningError(IllegalGraphChangeError):
    """Data: consumer, consumer_state, producer, producer_state, exchange."""

    template = (
        "operator {consumer} is {consumer_state} in the checkpoint, but {producer}, from which it reads "
        "({exchange}), is {producer_state}: what {producer} still produces would be lost (rules 2 and 3); add "
        "{producer} behind finished operators only, or give {consumer} a new uid so that it runs again"
    )


class NonRestoredStateError(IllegalGraphChangeError):
    """Data: operators (comma-separated uids)."""

    template = (
        "the checkpoint has state of operators that the job no longer has: {operators} (rule 4); keep their uids, "
        "or run with allow_non_restored_state to give that state up"
    )


class CutViolatedError(TerminalError):
    """An acknowledged checkpoint is no consistent cut; it was not completed, nothing of it is released.
    Data: checkpoint, edge, consumer, read, producer, published."""

    template = (
        "checkpoint {checkpoint} is no consistent cut: {consumer} read up to position {read} of edge {edge}, "
        "but {producer} has its barrier at position {published}; this is a defect: keep the job's folder and "
        "report it; the job can be restored from the checkpoint before"
    )


# ---- command line (cli/)


class BadAssignmentError(InvalidInputError):
    template = "{option} takes KEY=VALUE, and one of the values given has no key or no '='; write {option} key=value"


class UnknownJobError(InvalidInputError):
    template = "there is no job {job_id!r} under {root}. Jobs there: {known}"


class RequestOvertakenError(TransientError):
    template = (
        "job {job_id!r} was taken over by epoch {epoch} while epoch {asked} was asked to {kind}; a request is for "
        "one epoch only: ask again"
    )


class JobNotEndedError(TransientError):
    template = (
        "job {job_id!r} has not ended within {seconds:g} s of the {kind} request {request}, which the driver of "
        "epoch {epoch} {answer}; wait longer with --timeout, or look at the driver. If it is gone: the next run "
        "starts from the last completed checkpoint, and the request is not for it"
    )


class SparkMissingError(InvalidInputError):
    template = (
        "Spark cannot be started here: {problem}. Run `ckpt doctor`; "
        "pip install 'airflow-provider-ckpt[pyspark]' brings a matching set"
    )


class JobIdNeededError(InvalidInputError):
    template = (
        "the name of the job {reference} is {name!r}, which cannot be its id; give one with --job-id "
        "(letters, digits and _ . ~ -, at most 200)"
    )


# ---- storage


class InvalidStorageUriError(InvalidInputError):
    template = "the storage URI {uri!r} is refused: {reason}"


class InvalidStorageOptionsError(InvalidInputError):
    """Names the options only: their values may be secrets."""

    template = "the storage options {names} are refused for {uri}: {reason}"


class InvalidPathError(TerminalError):
    template = (
        "the path {path!r} is refused: a path is relative to its storage, with '/' between its parts, "
        "and no part is empty, '.' or '..'"
    )


class InvalidJobIdError(InvalidInputError):
    template = (
        "the job id {job_id!r} is refused: use 1 to 200 characters out of A-Z a-z 0-9 _ . ~ -, the first of "
        "them a letter, a digit or _"
    )


class ObjectNotFoundError(TerminalError):
    template = "{uri} does not exist"


class AlreadyExistsError(TerminalError):
    """Create-if-absent found the name taken. After a lost reply the object may be the caller's own (R17)."""

    template = "{uri} exists already"


class MoveConflictError(TerminalError):
    template = (
        "{source} cannot be moved to {target}: another file with other content is there, and it is not "
        "overwritten; move it out of the way by hand"
    )


class StorageTransientError(TransientError):
    """The verb may or may not have taken effect."""

    template = "the storage failed to {verb} {uri}: {reason}"


class StorageUnreachableError(TransientError):
    template = "the storage {uri} cannot be reached: {reason}; check the address, the bucket and the network"


class StorageReadOnlyError(TerminalError):
    template = "writing to {uri} was refused: {reason}; the job must be able to create, list and delete there"


class StorageDeniedError(TerminalError):
    template = "reading {uri} was refused: {reason}; check the credentials and the rights they carry"


class StorageFailedError(TerminalError):
    template = "the storage cannot {verb} {uri}: {reason}"


class StorageUnsuitableError(TerminalError):
    template = (
        "{uri} cannot hold checkpoints (R17): {reason}; use a local or shared file system with hard links, "
        "or an object store with conditional writes (S3, GCS, Azure)"
    )


class MalformedDocumentError(TerminalError):
    template = "{uri} is not a readable {what} file: {reason}"


class NewerFormatError(TerminalError):
    template = (
        "{uri} is a {what} file of version {found}, and this release reads up to version {known}; "
        "upgrade airflow_provider_ckpt to the release that wrote it, or a newer one"
    )


class ForeignRootError(TerminalError):
    template = "{uri} is not a checkpoint root: its marker says {found!r}; choose another folder"


class RootInsideRootError(InvalidInputError):
    template = (
        "the root {uri} lies inside another checkpoint root, {outer}: its files would look like a job's there, and be "
        "deleted with it; choose a folder outside"
    )


class RootAboveRootError(InvalidInputError):
    template = (
        "the root {uri} would lie around another checkpoint root, {inner}, whose files would look like a job's; "
        "choose another folder, or use that root"
    )


class RootIsPatternError(InvalidInputError):
    template = (
        "the root {uri} has {characters} in its path, which Spark takes for a pattern: it would look for other "
        "folders; choose a path without"
    )


class NoRootError(TerminalError):
    template = "{uri} is not a checkpoint root: there is no {marker}; check the URI (nothing has run there yet)"


class CorruptLogError(TerminalError):
    """``data``: ``uri`` of the damaged entry, its ``number``, ``reason``, ``intact`` (the entries before it, in
    order, kept ones included) and ``last`` (True if no entry follows the damaged one)."""

    template = (
        "{uri} is damaged: {reason}; entries are written whole or not at all, so the object was changed or "
        "removed behind our back: bring it back from a backup or an object version"
    )


class LostRaceError(TerminalError):
    """Somebody else holds the number this writer wanted; ``data["entry"]`` is their entry."""

    template = "{uri} was written by another writer ({writer}); this writer has not seen it and must not go on"


class BelowHeadError(TerminalError):
    template = (
        "{uri}: the next entry to read is {next_number}, but the log was truncated up to {head}; "
        "a reader never skips entries: load the log again"
    )


class NoSuchHeadError(TerminalError):
    template = "{uri} cannot be truncated up to {head}: its entries end before {next_number}"


# ---- journal


class UnknownEventError(TerminalError):
    template = (
        "the journal holds an event {what}, written by release {written_by}, which this release ({release}) "
        "does not know; upgrade airflow_provider_ckpt to {written_by} or newer"
    )


class FencedError(TerminalError):
    """A later driver owns the job (R3, R8): stop at once, write nothing, release nothing."""

    template = (
        "job {job_id} was taken over: epoch {epoch} is owned by attempt {attempt} ({worker}), "
        "this driver has epoch {own_epoch} and stops"
    )


class CorruptJournalError(TerminalError):
    template = "the journal of job {job_id} is damaged and the job is not started: {reason}"


class JournalUnwritableError(TransientError):
    """The journal refuses everything after this (no silent degradation); the next attempt reads what landed."""

    template = "the journal of job {job_id} cannot be written: {reason}; this attempt stops"


class JournalNotClaimedError(TerminalError):
    template = "the journal of job {job_id} was not claimed: nothing can be written to it before claim()"


# ---- spark: the runtime


class UnsupportedConfError(InvalidInputError):
    template = (
        "Spark setting {key}={value!r} cannot be honoured: a finished source can only be dropped with "
        "{key}={needed}; remove the setting"
    )


class UnsupportedStateStoreError(InvalidInputError):
    template = (
        "Spark setting {key}={value!r} cannot be honoured: a job that goes back to a checkpoint would count rows of "
        "the time after it, or lose some; set {key}={needed}, or remove the setting"
    )


class FunctionFailedError(InvalidInputError):
    """The user's function raised; its own traceback is kept as ``__cause__``."""

    template = "the function of operator {uid!r} ({location}) failed: {cause}"


class NotADataFrameError(InvalidInputError):
    template = "the function of operator {uid!r} ({location}) returned {got}; it must return a DataFrame"


class NotAStreamError(InvalidInputError):
    template = (
        "operator {uid!r} ({location}) gave a batch DataFrame where a stream is needed; use the reader it is "
        "given (read.format(...).load(...)), not spark.read"
    )


class OneSourceError(InvalidInputError):
    template = (
        "the function of source {uid!r} ({location}) loaded {loads} sources through its reader; it must load "
        "exactly one: write one @job.source function for each"
    )


class WatermarkOverUnionError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set behind the union of a bounded and a live source: the live one "
        "would make history late, and its rows would be dropped; set it on each source "
        "(@job.source(watermark=(column, delay))) or call withWatermark on the input before anything else"
    )


class WatermarkOverPartitionError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set on what {producer!r} gives, which unites or joins several "
        "sources in a query of its own: it would go with the fastest of them, and rows of the others would be late. "
        "Set it on the sources and work on those, or let the two share a query (no chain=False, no sink or second "
        "consumer between them)"
    )


class HeldWatermarkError(InvalidInputError):
    """R13: an ended input must not hold event time."""

    template = (
        "bounded input {uid!r} of {vertex!r} ({location}) has a watermark and is the only input of its parameter, "
        "so it cannot be left out when it ends, and the other inputs' event time would stand still for ever; "
        "read it without a watermark"
    )


class GraphChangedError(InvalidInputError):
    template = (
        "the job is not the one its journal describes (operators that are gone: {gone}; that moved to another "
        "query: {moved}); change it back (a renamed operator keeps its state with uid= and its old name), run it under "
        "another job id, or give up the state of operators that are gone with allow_non_restored_state "
        "(--allow-non-restored-state)"
    )


class ReturnedSourceError(InvalidInputError):
    template = (
        "source {source!r} was given up earlier, and the query of {vertex!r}, which went on without it, remembers by "
        "that name what it had read: give the source another uid"
    )


class LateSourceError(InvalidInputError):
    template = (
        "source {source!r} is new in the query of {vertex!r}, which keeps state by event time and has run: its event "
        "time does not go back, and rows of the new source that are behind it would be dropped as late; run the job "
        "under another id, or give {vertex!r} another uid so that it starts empty"
    )


class SchemaChangedError(InvalidInputError):
    template = (
        "the output of {vertex!r} changed between two tries, from {before} to {after}; "
        "run it under another job id, or change it back"
    )


class DefinitionChangedError(InvalidInputError):
    """Data: subject, field, before, after, why, more."""

    template = (
        "{subject} has another {field} than when the job began: {before!r} became {after!r}{more}. {why}; change it "
        "back, or run it under another job id"
    )


class JobStateMovedError(TransientError):
    """The driver before went on while this one was getting ready, again and again."""

    template = (
        "job {job_id!r} changed {times} times while this driver was getting ready to take it over; its driver is at "
        "work: stop it first (ckpt stop), or try again"
    )


class JobFailedTerminallyError(InvalidInputError):
    template = (
        "job {job_id!r} failed terminally ({cause}); trying again gives the same answer: mend the cause, then "
        "go on with --resume-failed (in Airflow: clear the task)"
    )


class RestoreRefusedError(InvalidInputError):
    template = "cannot restore job {job_id!r} from {restore!r}: {reason}"


class DeadlinePassedError(InvalidInputError):
    """Data: job_id, option, at, now."""

    template = (
        "{option}={at} is over (it is {now} now), and job {job_id!r} has not run yet: it would read nothing. Give a "
        "time to come"
    )


class InputsIncompleteError(TransientError):
    """A vertex in BATCH mode was to start, and a producer of its inputs is not at its end of data. Data: vertex,
    producers."""

    template = "vertex {vertex!r} cannot start: {producers} did not come to the end of data"


class QueryFailedError(TransientError):
    template = "the query of vertex {vertex!r} failed: {cause}"


class SourceFilesGoneError(TerminalError):
    """Files of a bounded source's frozen list vanished before they were read: the source could never end."""

    template = (
        "{count} of the files that bounded source {uid!r} still has to read are gone, {path} among them. Put them "
        "back and resume the job, or run it under another job id to do without them."
    )


class SparkFolderLostError(TerminalError):
    """What Spark keeps of a query is not whole: going on would leave rows out, or never end. Data: uri, problem."""

    template = (
        "{uri} {problem}: what Spark keeps of the query is damaged, and going on would lose rows. Nothing was "
        "released on account of it, and nothing of the folder was deleted: put it back from a backup and go on with "
        "--resume-failed, or run the job under another id, from its input"
    )


class LosingOptionError(InvalidInputError):
    template = "source {uid!r} ({location}) has the option {key}={value}: {why}; leave it out"


class LosingSettingError(InvalidInputError):
    template = "Spark setting {key}={value!r} is refused: {why}; remove the setting"


class PlannedFilesGoneError(SourceFilesGoneError):
    """Files that a micro-batch was planned with are gone when it runs: Spark would leave them out in silence."""

    template = (
        "{count} of the files that the next batch reads from source {uid!r} are gone, {path} among them. Nothing of "
        "the batch was written. Put the files back and resume the job, or run it under another job id to do without "
        "them."
    )


class GlobNameError(TerminalError):
    """Spark takes the name of a file for a pattern, and would read the other files of its batch twice."""

    template = (
        "source {uid!r} has a file whose name Spark's streaming reader takes for a pattern: {path}. It would read "
        "other files twice. Nothing of the batch was written. Rename the file and its folders so that they hold none "
        "of {{ }} [ ] * ? \\, and resume the job."
    )


class UnreadableNameError(InvalidInputError):
    """The same, seen before the job starts."""

    template = (
        "source {uid!r} ({location}) has a file whose name Spark's streaming reader takes for a pattern: {path}. It "
        "would read other files twice. Rename the file and its folders so that they hold none of {{ }} [ ] * ? \\, or "
        "run the job in batch mode."
    )


class CleanSourceError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) has the option cleanSource={value}: Spark would delete or move files that no "
        "checkpoint covers yet, and a job that goes back to one could not read them again; leave it out, and clean up "
        "what a released checkpoint covers"
    )


class UnsupportedQueryError(InvalidInputError):
    template = "Spark cannot run the query of {vertex!r} ({location}) {how}: {cause}{hint}"


class RootInOutputError(InvalidInputError):
    template = (
        "the root {root} lies in the folder of sink {sink!r} ({folder}), where readers would take it for data; give "
        "the root a folder of its own"
    )


class OutputReadError(InvalidInputError):
    template = (
        "source {source!r} reads {path}, where sink {sink!r} writes ({folder}): the job would read its own output; "
        "give the sink a folder outside of what is read"
    )


class RootNotForSparkError(InvalidInputError):
    template = (
        "the root {uri} lives in this process only, and Spark's executors could not read it; "
        "use a folder (file://) or an object store"
    )


# ---- Spark's own way to the storages


class SparkFileSystemMissingError(InvalidInputError):
    template = "Spark cannot open {uri}: {reason}; give Spark {hint}"


class SparkDeniedError(InvalidInputError):
    template = (
        "Spark was refused at {uri}, which this process can read: {reason}; if credentials, endpoint or region are not "
        "in the storage options, give them to Spark, too (spark.hadoop.fs.s3a.…, or the environment of the driver)"
    )


class SparkReachesElsewhereError(InvalidInputError):
    template = (
        "Spark does not see {marker} at {spark_uri}, which this process sees at {uri}: the two talk to different "
        "stores; give Spark the same endpoint (the storage option endpoint_url, or spark.hadoop.fs.s3a.endpoint)"
    )


class BucketSettingsError(InvalidInputError):
    template = (
        "two locations in {uri} have storage options that differ ({names}), and Spark knows one set for a bucket; "
        "give both the same, or use two buckets"
    )
