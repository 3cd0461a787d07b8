"""Errors of running tasks."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.task.errors import SourceFilesGoneError


class InputsIncompleteError(TransientError):
    """A start of a vertex in BATCH mode before its producers are at their end of data. Data: vertex, producers."""

    template = "vertex {vertex!r} cannot start: {producers} did not reach the end of data"


class QueryFailedError(TransientError):
    template = "the query of vertex {vertex!r} failed: {cause}"


class FileNotReadError(QueryFailedError):
    """A file that a query cannot read. Data: vertex, file, cause."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {cause}. Nothing of the batch was released. Another try "
        "reads the file again. If it is damaged or incomplete, put the right file under its name"
    )


class SparkLostError(TransientError):
    """An end of Spark's JVM while the job ran. Later errors, even in user functions, say nothing about the job."""

    template = (
        "Spark's JVM ended while the job ran (killed, or out of memory: see its log, and spark.driver.memory); the job "
        "can be run again, and resumes after its released output; the error that followed: {cause}"
    )


class PlannedFilesGoneError(SourceFilesGoneError):
    """Files of a planned micro-batch that are gone when it runs. Spark would silently leave them out."""

    template = (
        "files that the next batch reads from source {uid!r} are gone: {count} in all, {path} among them. Nothing of "
        "the batch was written. Put the files back and run the job with --resume-failed. To give up a file that was "
        "renamed or deleted, add --forget-file {path} (in Airflow forget_files); the job shows which files were given "
        "up."
    )


class LeftOutError(TerminalError):
    """A file of the batch that Spark lists but does not read."""

    template = (
        "vertex {vertex!r}: {path} lies next to folders that are named column=value, and Spark reads only the files in "
        "such folders. Nothing of the batch was written. The batch is planned with it: run the job under another job "
        "id, with the file in such a folder, or with the source's option recursiveFileLookup=true."
    )


class LateRowsError(TerminalError):
    """Rows that Spark dropped as late, with a source that has ``late_rows="fail"``. Data: vertex, rows, source."""

    template = (
        "the query of vertex {vertex!r} dropped late rows ({rows}), and source {source!r} has late_rows='fail'. Spark "
        "counts rows after it has aggregated them within a task, so there may be more input rows. Nothing of the "
        "micro-batch was released. To resume without these rows, set late_rows='warn' and run with --resume-failed. To "
        "include them, run the job under another job id with a longer delay in watermark=(column, delay)"
    )


class UnfinishedFilesError(TerminalError):
    """Files that changed after they were read, of a source without ``unfinished_files="warn"``. Data: source, count,
    file."""

    template = (
        "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source that changed "
        "after they were read: {count}. Have the producer write under a hidden name (.name or _name), and rename the "
        "file when it is complete. To resume without the missing rows, run with --resume-failed; to include them, run "
        "the job under another job id. unfinished_files='warn' only reports such files"
    )


class FilesSettledError(QueryFailedError):
    """Files that changed while a micro-batch waited for them. The batch is restarted and reads all of them. Data:
    vertex,
    file."""

    template = "the query of vertex {vertex!r} waited until {file} was complete, and restarts its micro-batch"


class FilesChangedWhileReadError(TransientError):
    """Files that changed while a job in batch mode read them. A retry reads them again. Data: source, count, file."""

    template = (
        "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source that changed "
        "while they were read: {count}. Nothing was released; another try reads them again. Have the producer write "
        "under a hidden name (.name or _name), and rename the file when it is complete"
    )


class UnfitEventTimeError(TerminalError):
    """Rows without a usable event time, of a source that has ``late_rows="fail"``. Data: vertex, source, rows."""

    template = (
        "source {source!r} gave the query of vertex {vertex!r} {rows}, and has late_rows='fail'. Nothing of the "
        "micro-batch was released. Correct or filter such rows in the source's function, or set late_rows='warn', and "
        "run with --resume-failed"
    )


def unfit_event_time(vertex: str, source: str, times: SourceTimes) -> UnfitEventTimeError:
    reasons = (
        (times.without, "without an event time (no window ever closes with them)"),
        (times.before_1970, "before 1970 (Spark treats them as late)"),
        (times.ahead, "further ahead of the clock than max_ahead (they do not move the watermark)"),
    )
    rows = " and ".join(f"{counted(count, 'row')} {reason}" for count, reason in reasons if count)
    return UnfitEventTimeError(vertex=vertex, source=source, rows=rows)


class ComputationFailedError(TerminalError):
    """A value that cannot be computed in ANSI mode, such as a cast of a text that is no number. Data: vertex, problem,
    files.

    Spark's message is left out, because it shows the value.
    """

    template = (
        "the query of vertex {vertex!r} failed{files}: {problem}. Nothing of the batch was released. Another try would "
        "fail at the same value. Correct the function (try_cast, try_divide and the like give null) or the file, and "
        "start the job with --resume-failed"
    )


class FileColumnTypeError(TerminalError):
    """A Parquet file with a column of a type that its source does not read. Data: vertex, file, column, expected,
    actual."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file (Parquet's name), "
        "but {expected} in the schema. Nothing of the batch was released. Write the file again under its name, with "
        "the type of the schema, and start the job with --resume-failed; or run the job under another id, with a "
        "schema for both types"
    )


class OrcColumnTypeError(TerminalError):
    """An ORC file with a column of a type that its source does not read. Data: vertex, file, column, expected,
    actual."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file, but {expected} in "
        "the schema. Spark would read values that do not fit as nulls. Nothing of the batch was released. Write the "
        "file again under its name, with the type of the schema, and start the job with --resume-failed; or run the "
        "job under another id, with a schema for both types"
    )


class FileColumnsTwiceError(TerminalError):
    """A file with several columns of one name. Data: vertex, file, columns."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: it has columns with the same name, {columns}. Nothing of "
        "the batch was released. Write the file again under its name, with different column names, and start the job "
        "with --resume-failed. If the names differ only in case, spark.sql.caseSensitive=true with --new-settings "
        "reads them separately"
    )


class MalformedRowError(TerminalError):
    """A row that does not fit the schema, if the search for its place is impossible. Data: vertex, file, where.

    Otherwise :class:`UnfitRowError` names the place. The search needs a file that can be read again, in a known format.
    """

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema, and the source fails at "
        "such rows (on_malformed='fail', or the reader's mode=FAILFAST). Nothing of the batch was released. Correct "
        "the file under its name, and start the job with --resume-failed"
    )


class UnfitRowError(TerminalError):
    """A row that does not fit the schema, of a source that fails at such rows. Data: vertex, file, where.

    The message does not show the row.
    """

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema. Nothing of the batch was "
        "released. Correct the file under its name, or give the source on_malformed='count', which reads such values "
        "as nulls and counts the rows. Then start the job with --resume-failed"
    )


class TrailingTextError(TerminalError):
    """Rows of a JSON file with text after their first value, of a source that fails at such rows. Data: vertex, file,
    rows.

    The message does not show the text.
    """

    template = (
        "the query of vertex {vertex!r} cannot read {file}: there is text after the first JSON value of {rows} rows, "
        "such as a second value, and Spark reads the first value only. Nothing of the batch was released. Write each "
        "value in a line of its own, under the name of the file, and leave out the reader's option multiLine. Or give "
        "the source on_malformed='count', which counts such rows. Then start the job with --resume-failed"
    )


class CsvHeaderError(TerminalError):
    """A CSV file whose header differs from the schema. Data: vertex, file, problem."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {problem}. Columns of a CSV file are read by position. "
        "Nothing of the batch was released. Write the file again under its name, with the columns of the schema in "
        "their order, and start the job with --resume-failed. If the order is right and only the names differ, give "
        "the source the option enforceSchema=true, which ignores the header"
    )


class ExecutorModuleError(TerminalError):
    """A module that a function of the job needs and that a Python worker cannot import. Data: vertex, module."""

    template = (
        "the query of vertex {vertex!r} failed in a Python worker, which has no module {module!r}, or another version "
        "of it. Nothing of the batch was released. Modules from the folder or package of the job's file are sent to "
        "executors if an import statement names them. For any other module, install it where the executors run, or "
        "send it: py_files in Airflow, --conf spark.submit.pyFiles=FILE.zip for `ckpt run`. Then start the job with "
        "--resume-failed"
    )


class ExecutorPythonError(TerminalError):
    """A Python of the executors that cannot run the job's functions. Data: vertex, problem."""

    template = (
        "the query of vertex {vertex!r} failed in a Python worker: {problem}. Nothing of the batch was released. "
        "Choose a Python for the executors with --conf spark.pyspark.python=PATH, of the driver's minor version and "
        "with pyspark and pyarrow. Then start the job with --resume-failed"
    )


class GlobNameError(TerminalError):
    """A file whose name Spark treats as a pattern, so that it would read other files of the batch twice."""

    template = (
        "source {uid!r} has a file whose name Spark's streaming reader treats as a pattern: {path}. It would read "
        "other files twice. Nothing of the batch was written. Rename the file and its folders so that they contain "
        "none of {{ }} [ ] * ? \\, and resume the job."
    )


class ColonNameError(TerminalError):
    """A file on a local disk with a colon in its name, which Hadoop cannot read."""

    template = (
        "source {uid!r} has a file with a colon in its name, which Spark cannot read from a local disk: {path}. "
        "Nothing of the batch was written. Rename the file, and resume the job."
    )


class SplitFailedError(TransientError):
    """A split that could not be read. The original error is its ``__cause__``."""

    template = "split {split!r} of source {uid!r} failed: {cause}"


class KafkaRowsGoneError(TerminalError):
    """Unread rows that are gone from Kafka, found by a running query. Data: vertex, reason."""

    template = (
        "the query of vertex {vertex!r} cannot continue: rows that it has not read are gone from Kafka. {reason} "
        "Retention has deleted them, or the topic was deleted or created again. Nothing of the batch was released. A "
        "retry would fail in the same way: run the job under another id, from the rows that are left"
    )


class KafkaStartUnfitError(TerminalError):
    """Starting offsets that do not name exactly the partitions of the topics. Data: vertex, key.

    Spark compares them only at the first start of a live source.
    """

    template = (
        "the query of vertex {vertex!r} cannot start: {key} of its Kafka source must name each partition of the topics "
        "that it reads, and no other. Nothing was read. Correct it, but keep the topics, and start the job with "
        "--resume-failed"
    )
