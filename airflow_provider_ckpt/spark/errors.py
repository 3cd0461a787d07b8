"""Errors of the runtime: of plans, starts, queries and their sources."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError
from airflow_provider_ckpt.task.errors import SourceFilesGoneError


class OutputTakenError(InvalidInputError):
    """The job is new under its root, and its sink holds releases: the root was moved, wiped or mistaken. The sink
    would take the new job's first checkpoints for released already, and leave their rows out."""

    template = (
        "Sink {sink} of job {job_id!r} holds what a job of that name released up to checkpoint {released}, and under "
        "the root {root} there is no such job yet. Go on with the root it ran with, or begin anew with another job "
        "id or an empty target."
    )


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


class InputsIncompleteError(TransientError):
    """A vertex in BATCH mode was to start, and a producer of its inputs is not at its end of data. Data: vertex,
    producers."""

    template = "vertex {vertex!r} cannot start: {producers} did not come to the end of data"


class QueryFailedError(TransientError):
    template = "the query of vertex {vertex!r} failed: {cause}"


class PreparedLostError(TerminalError):
    """The note of what a batch has staged is lost, and Spark has committed the batch: it will not be run again."""

    template = (
        "{uri} {problem}. It says what the last batch has staged that Spark committed, and without it the rows of that "
        "batch would be lost. Nothing was deleted on account of it: put it back from a backup and run the job again, "
        "or run the job under another id, from its input"
    )


class FrozenListLostError(TerminalError):
    """The frozen list of a bounded source is lost. A new one would hold other files."""

    template = (
        "{uri} {problem}. It is the list of the files of a bounded source, made once when the job first started; a new "
        "one could hold other files. Nothing was deleted on account of it: put it back from a backup and run the job "
        "again, or run the job under another id, from its input"
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


class FileColumnTypeError(TerminalError):
    """A Parquet file holds a column in a type that its source does not read. Data: vertex, file, column, expected,
    actual."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file (Parquet's name), "
        "and is read as {expected}. Nothing of the batch was released. Write the file anew with the type that is read, "
        "under its name, and go on with --resume-failed; or run the job under another id, with a schema for both"
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


class ColonNameError(TerminalError):
    """Hadoop cannot read a file on a local disk whose name holds a colon."""

    template = (
        "source {uid!r} has a file with a colon in its name, which Spark cannot read from a local disk: {path}. "
        "Nothing of the batch was written. Rename the file, and resume the job."
    )


class UnreadableColonError(InvalidInputError):
    """The same, seen before anything is read."""

    template = (
        "source {uid!r} ({location}) has a file with a colon in its name, which Spark cannot read from a local disk: "
        "{path}. Rename the file."
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


class NotABatchError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) gave a stream for a split; it must return a batch DataFrame, such as that of the "
        "reader it is given (read.format(...).load(...))"
    )


class SplitSchemaError(InvalidInputError):
    template = (
        "split {split!r} of source {uid!r} ({location}) has other columns than the first one: {found} instead of "
        "{planned}. All splits of a source have the same columns, of the same types: select and cast them"
    )


class SplitFailedError(TransientError):
    """What was raised is kept as ``__cause__``."""

    template = "split {split!r} of source {uid!r} failed: {cause}"


class WatermarkOverSplitsError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set on what {producer!r} gives, whose splits are read in no order: "
        "rows of a split that is read later would be late, and dropped. Group by columns, or run the job in batch "
        "mode, where results are final without a watermark"
    )
