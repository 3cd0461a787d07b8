"""What a running task fails with."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.model.source_times import SourceTimes
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.task.errors import SourceFilesGoneError


class InputsIncompleteError(TransientError):
    """A vertex in BATCH mode was to start, and a producer of its inputs is not at its end of data. Data: vertex,
    producers."""

    template = "vertex {vertex!r} cannot start: {producers} did not come to the end of data"


class QueryFailedError(TransientError):
    template = "the query of vertex {vertex!r} failed: {cause}"


class FileNotReadError(QueryFailedError):
    """Data: vertex, file, cause."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {cause}. Nothing of the batch was released. Another try "
        "reads the file again. If it is damaged or incomplete, put the right file under its name"
    )


class SparkLostError(TransientError):
    """What failed on account of it says nothing of the job: not even a user's function that raised."""

    template = (
        "Spark's JVM ended while the job ran (killed, or out of memory: see what it logged, and spark.driver.memory); "
        "the job can be run again, and goes on from what is released; what failed then: {cause}"
    )


class PlannedFilesGoneError(SourceFilesGoneError):
    """Files that a micro-batch was planned with are gone when it runs: Spark would leave them out in silence."""

    template = (
        "files that the next batch reads from source {uid!r} are gone: {count} in all, {path} among them. Nothing of "
        "the batch was written. Put the files back and run the job with --resume-failed. To do without a file that was "
        "renamed or deleted, add --forget-file {path} (in Airflow forget_files); the job shows which files were given "
        "up."
    )


class LeftOutError(TerminalError):
    """A file of the batch that Spark lists and does not read."""

    template = (
        "vertex {vertex!r}: {path} lies beside folders that are named column=value, and Spark reads only what lies in "
        "such folders. Nothing of the batch was written. The batch is planned with it: run the job under another job "
        "id, with the file in such a folder, or with the source's option recursiveFileLookup=true."
    )


class LateRowsError(TerminalError):
    """Spark dropped rows as late, and a source says ``late_rows="fail"``. Data: vertex, rows, source."""

    template = (
        "the query of vertex {vertex!r} dropped late rows ({rows}), and source {source!r} says late_rows='fail'. "
        "Spark counts what is left after it has aggregated within a task, so there may be more input rows. Nothing of "
        "the micro-batch was released. To go on without these rows, set late_rows='warn' and run with --resume-failed. "
        "To have them, run the job under another job id with a longer delay in watermark=(column, delay)"
    )


class UnfinishedFilesError(TerminalError):
    """A source's files changed after they were read, and it does not say ``unfinished_files="warn"``. Data: source,
    count, file."""

    template = (
        "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source that changed "
        "after they were read: {count}. Have the producer write under a hidden name (.name or _name), and rename the "
        "file when it is complete. To go on without the missing rows, run with --resume-failed; to have them, run the "
        "job under another job id. unfinished_files='warn' reports such files only"
    )


class FilesSettledError(QueryFailedError):
    """Files of a micro-batch changed while it waited for them. The batch begins again, and reads them whole. Data:
    vertex, file."""

    template = "the query of vertex {vertex!r} waited until {file} was complete, and begins its micro-batch again"


class FilesChangedWhileReadError(TransientError):
    """Of a job in batch mode, which reads them again. Data: source, count, file."""

    template = (
        "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source that changed "
        "while they were read: {count}. Nothing was released; another try reads them again. Have the producer write "
        "under a hidden name (.name or _name), and rename the file when it is complete"
    )


class UnfitEventTimeError(TerminalError):
    """Rows whose event time their query cannot go by, of a source that says ``late_rows="fail"``. Data: vertex, source,
    rows."""

    template = (
        "source {source!r} gave the query of vertex {vertex!r} {rows}, and says late_rows='fail'. Nothing of the "
        "micro-batch was released. Correct or filter such rows in the source's function, or set late_rows='warn', and "
        "run with --resume-failed"
    )


def unfit_event_time(vertex: str, source: str, times: SourceTimes) -> UnfitEventTimeError:
    reasons = (
        (times.without, "without an event time (no window ever closes with them)"),
        (times.before_1970, "before 1970 (Spark takes them for late)"),
        (times.ahead, "further ahead of the clock than max_ahead (they do not move the watermark)"),
    )
    rows = " and ".join(f"{counted(count, 'row')} {reason}" for count, reason in reasons if count)
    return UnfitEventTimeError(vertex=vertex, source=source, rows=rows)


class ComputationFailedError(TerminalError):
    """A value cannot be computed in ANSI mode, such as a cast of a text that is no number. Spark's message shows the
    value, so it is left out. Data: vertex, problem, files."""

    template = (
        "the query of vertex {vertex!r} failed{files}: {problem}. Nothing of the batch was released. Another try would "
        "fail at the same value. Correct the function (try_cast, try_divide and the like give null) or the file, and "
        "start the job with --resume-failed"
    )


class FileColumnTypeError(TerminalError):
    """A Parquet file holds a column in a type that its source does not read. Data: vertex, file, column, expected,
    actual."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file (Parquet's name), "
        "and is read as {expected}. Nothing of the batch was released. Write the file anew with the type that is read, "
        "under its name, and go on with --resume-failed; or run the job under another id, with a schema for both"
    )


class OrcColumnTypeError(TerminalError):
    """Data: vertex, file, column, expected, actual."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file, and is read as "
        "{expected}. Spark would make nulls of values that do not fit. Nothing of the batch was released. Write the "
        "file anew with the type that is read, under its name, and go on with --resume-failed; or run the job under "
        "another id, with a schema for both"
    )


class FileColumnsTwiceError(TerminalError):
    """Data: vertex, file, columns."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: it has columns with one name, {columns}. Nothing of the "
        "batch was released. Write the file anew under its name, with different columns, and start the job with "
        "--resume-failed. If the names differ in case only, spark.sql.caseSensitive=true with --new-settings reads "
        "them apart"
    )


class MalformedRowError(TerminalError):
    """As :class:`UnfitRowError`, if the file cannot be read once more, or is of another format. Data: vertex, file,
    where."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema, and the source fails at "
        "such rows (on_malformed='fail', or the reader's mode=FAILFAST). Nothing of the batch was released. Correct "
        "the file under its name, and start the job with --resume-failed"
    )


class UnfitRowError(TerminalError):
    """A row does not fit the schema, and its source fails at such rows. The row is not shown. Data: vertex, file,
    where."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema. Nothing of the batch was "
        "released. Correct the file under its name, or give the source on_malformed='count', which reads such values "
        "as nulls and counts the rows. Then start the job with --resume-failed"
    )


class TrailingTextError(TerminalError):
    """Rows of a JSON file have text after their first value, and the source fails at such rows. The text is not shown.
    Data: vertex, file, rows."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: there is text after the first JSON value of {rows} rows, "
        "such as a second value, and Spark reads the first value only. Nothing of the batch was released. Write each "
        "value in a line of its own, under the name of the file, and leave out the reader's option multiLine. Or give "
        "the source on_malformed='count', which counts such rows. Then start the job with --resume-failed"
    )


class CsvHeaderError(TerminalError):
    """The header of a CSV file is not that of the schema. Data: vertex, file, problem."""

    template = (
        "the query of vertex {vertex!r} cannot read {file}: {problem}. Columns of a CSV file are read by position. "
        "Nothing of the batch was released. Write the file anew under its name, with the columns of the schema in "
        "their order, and start the job with --resume-failed. If the order is right and only the names differ, give "
        "the source the option enforceSchema=true, which ignores the header"
    )


class ExecutorModuleError(TerminalError):
    """A function of the job needs a module, and a Python worker cannot import it. Data: vertex, module."""

    template = (
        "the query of vertex {vertex!r} failed in a Python worker, which has no module {module!r}, or another version "
        "of it. Nothing of the batch was released. Modules from the folder or package of the job's file are sent to "
        "executors if an import statement names them. For any other module, install it where the executors run, or "
        "send it: py_files in Airflow, --conf spark.submit.pyFiles=FILE.zip for `ckpt run`. Then start the job with "
        "--resume-failed"
    )


class ExecutorPythonError(TerminalError):
    """The Python of the executors cannot run the job's functions. Data: vertex, problem."""

    template = (
        "the query of vertex {vertex!r} failed in a Python worker: {problem}. Nothing of the batch was released. "
        "Choose a Python for the executors with --conf spark.pyspark.python=PATH, of the driver's minor version and "
        "with pyspark and pyarrow. Then start the job with --resume-failed"
    )


class GlobNameError(TerminalError):
    """Spark takes the name of a file for a pattern, and would read the other files of its batch twice."""

    template = (
        "source {uid!r} has a file whose name Spark's streaming reader takes for a pattern: {path}. It would read "
        "other files twice. Nothing of the batch was written. Rename the file and its folders so that they hold none "
        "of {{ }} [ ] * ? \\, and resume the job."
    )


class ColonNameError(TerminalError):
    """Hadoop cannot read a file on a local disk whose name holds a colon."""

    template = (
        "source {uid!r} has a file with a colon in its name, which Spark cannot read from a local disk: {path}. "
        "Nothing of the batch was written. Rename the file, and resume the job."
    )


class SplitFailedError(TransientError):
    """What was raised is kept as ``__cause__``."""

    template = "split {split!r} of source {uid!r} failed: {cause}"


class KafkaRowsGoneError(TerminalError):
    """Spark's own report of it, of a query that runs. Data: vertex, reason."""

    template = (
        "the query of vertex {vertex!r} cannot go on: rows that it has still to read are gone from Kafka. {reason} "
        "Retention has taken them, or the topic was deleted or made again. Nothing of the batch was released. A retry "
        "would find the same: run the job under another id, from what is there"
    )


class KafkaStartUnfitError(TerminalError):
    """Spark compares them when a live source begins, which is once. Data: vertex, key."""

    template = (
        "the query of vertex {vertex!r} cannot begin: {key} of its Kafka source has to name each partition of the "
        "topics that it reads, and no other. Nothing was read. Mend it (the topics have to stay), and go on with "
        "--resume-failed"
    )
