"""Errors of a query that are found before it runs: in the user's functions, in its sources, or in a change."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class UnfitQueryError(InvalidInputError):
    """A query that cannot replace the running one. The running one continues."""

    template = "the new query of {vertex} cannot take the place of the one that runs: {problem}"


class ForeignCodeError(InvalidInputError):
    """Code outside of the folders that a request may name. Data: reference, place, known, folder."""

    template = (
        "the code of {reference} is not run: {place} lies in none of the folders that a request may name code from "
        "({known}). Those are the folder or package of the job's own file, and what --allow-code-from adds "
        "(allow_code_from in Airflow). Put the file there, or start the driver with --allow-code-from {folder}"
    )


class WrittenCodeError(InvalidInputError):
    """Code below a folder that the job writes. Data: reference, place, written."""

    template = (
        "the code of {reference} is not run: {place} lies below {written}. Data must not run as code. Put the file "
        "into the folder of the job's own file"
    )


class ForeignTypeError(InvalidInputError):
    """Data: name."""

    template = (
        "a schema names the Python class {name} as the type of a column. Spark would import and run that code, and "
        "whoever writes the file would choose it. Write the column with a plain type, such as a struct or an array"
    )


class FunctionFailedError(InvalidInputError):
    """An error that a user's function raised. Its traceback is kept as ``__cause__``."""

    template = "the function of operator {uid!r} ({location}) failed: {cause}"


class FunctionFailedForNowError(TransientError):
    """An error of a user's function that may pass (:func:`~airflow_provider_ckpt.job.user_failure.may_pass`)."""

    template = f"{FunctionFailedError.template}. Another try calls it again"


class SharedFilesError(InvalidInputError):
    """Files that a bounded and a live source both read into one union. Data: history, live, location, path, union."""

    template = (
        "sources {history!r} and {live!r} ({location}) both read {path}, and {union} unites their rows: each row "
        "would come twice. To read the present files as {history!r} and later files as {live!r}, declare "
        "@job.source(after={history}) on {live!r}. If their functions select different rows, set reads_again=True there"
    )


class NothingToReadError(TransientError):
    """A bounded source without anything to read at the job's first start. Data: uid, location, nothing."""

    template = (
        "bounded source {uid!r} ({location}) has nothing to read: there is {nothing}. The job would finish without "
        "this input, and would never read later data. Another try checks again. If the source may be empty, "
        "declare it: @job.source(bounded=True, allow_empty=True)"
    )


class OnlySubFoldersError(NothingToReadError):
    """A bounded source that has files only in sub-folders of its folder. Data: uid, location, nothing, left."""

    template = (
        "bounded source {uid!r} ({location}) has nothing to read: there is {nothing} itself, and there are {left}. "
        "Spark reads the files of a folder, and not those of the folders in it. To read them, give the source the "
        "option recursiveFileLookup=true, or name the folders in its path"
    )


class PathNotFoundError(TransientError):
    """A path of a source that does not exist. Data: uid, location, path."""

    template = (
        "source {uid!r} ({location}) reads {path}, which does not exist. Mount or create the folder, or correct the "
        "path. Another try checks again"
    )


class PartitionValueError(InvalidInputError):
    """A folder whose value is not of the type of its column. Data: subject, column, value, type."""

    template = (
        "{subject} cannot read the folder {column}={value}: the schema of the source reads column {column} as {type}, "
        "and the value is not of this type. Nothing of the batch was written. Rename the folder if no batch was "
        "planned with it. Otherwise read the column as STRING, convert it in the function of the source (try_cast "
        "gives null for such a value), and start the job with --resume-failed"
    )


class PartitionColumnsError(InvalidInputError):
    """Folders of a source whose names give different columns. Data: subject, folders."""

    template = (
        "{subject} cannot read folders whose names give different columns: {folders}. Nothing of the batch was "
        "written. Give all folders of the source the same columns, or give the source the option "
        "recursiveFileLookup=true, which takes no columns from the names of folders. Then start the job with "
        "--resume-failed"
    )


class NewPartitionColumnError(InvalidInputError):
    """A new folder whose name adds a column. Data: subject, columns."""

    template = (
        "{subject} began without the column {columns}, which the name of a new folder adds. Nothing of the batch was "
        "written. Give the source the option recursiveFileLookup=true, which takes no columns from the names of "
        "folders, and start the job with --resume-failed. Or run the job under another id, with the column in the "
        "schema of the source"
    )


class MalformedModeError(InvalidInputError):
    """Two different choices about malformed rows for one source. Data: uid, location, on_malformed, mode."""

    template = (
        "source {uid!r} ({location}) has on_malformed={on_malformed!r} and gives its reader the option mode={mode}, "
        "which is another choice. Leave one of the two out"
    )


class FolderColumnNullError(InvalidInputError):
    """A column of folder names that would be null in each row. Data: uid, location, column, folder."""

    template = (
        "source {uid!r} ({location}) has the column {column} in its schema, and reads with recursiveFileLookup=true. "
        "With this option Spark takes no column from the names of folders ({folder}), so {column} would be null in "
        "each row. Leave the option out: Spark reads files in folders named column=value without it. Or leave "
        "{column} out of the schema, and take the value from _metadata.file_path in the function of the source"
    )


class NotParsedError(InvalidInputError):
    """A choice about malformed rows of a format in which they are not found.

    Data: uid, location, on_malformed, format.
    """

    template = (
        "source {uid!r} ({location}) has on_malformed={on_malformed!r}, and reads the format {format}. Malformed rows "
        "are found only in files of the formats csv and json whose columns the reader gives. Leave on_malformed out, "
        "and have the function of the source find such rows"
    )


class MalformedColumnError(InvalidInputError):
    """A choice about malformed rows of a source whose schema has a column for them.

    Data: uid, location, on_malformed, column.
    """

    template = (
        "source {uid!r} ({location}) has on_malformed={on_malformed!r}, and its schema has the column {column}, in "
        "which Spark keeps malformed rows. Leave the column out of the schema, or leave on_malformed out and handle "
        "the rows in the function of the source"
    )


class NotADataFrameError(InvalidInputError):
    """A user's function that returned something else than a DataFrame. Data: uid, location, got, hint."""

    template = "the function of operator {uid!r} ({location}) returned {got}; it must return a DataFrame of Spark{hint}"


class UnfitWatermarkError(InvalidInputError):
    """A watermark whose column is missing or no time, or whose delay is no delay.

    Data: uid, location, column, delay, cause.
    """

    template = (
        "source {uid!r} ({location}) cannot have the watermark ({column!r}, {delay!r}): {cause}. Name a column of type "
        'TIMESTAMP, and a delay such as "1 hour"'
    )


class WindowWatermarkError(InvalidInputError):
    """A watermark on a column of windows. Data: uid, location, column."""

    template = (
        "the query of operator {uid!r} ({location}) has a watermark on the column {column!r}, which holds windows. "
        "Spark takes no event time from such a column, so no window would close. Set the watermark on the column of "
        "the time that the windows are made of"
    )


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


class InputReadTwiceError(InvalidInputError):
    template = (
        "the result of {uid!r} ({location}) reads live inputs {reads} times and was given {given}: it joins or unites "
        "an input with itself, which no streaming query can, or reads a stream of its own, which only a @job.source "
        "may. For a self-join put a transform that returns its input unchanged in front "
        "of one side, and give that to {uid!r} as another input"
    )


class InputNotReadError(InvalidInputError):
    template = (
        "the result of {uid!r} ({location}) does not read its input {unread}: rows of it would be skipped or, once it "
        "is read again, come twice, and a bounded input would never end. Read it, with a filter that no row passes if "
        "none of its rows are wanted, or remove it from the inputs of {uid!r}"
    )


class UnlikeFieldsError(InvalidInputError):
    """Inputs of a union whose structs have different fields. Data: uid, location, input, first, column, problem."""

    template = (
        "the inputs of {uid!r} ({location}) cannot be united: column {column!r} of {input!r} holds {problem}, which is "
        "what {first!r} has there. Give the structs of all inputs the same fields; their order does not matter"
    )


class UnlikeEventTimesError(InvalidInputError):
    """Inputs of a union that differ in event time. Data: uid, location, column, having, lacking."""

    template = (
        "{uid!r} ({location}) keeps state by the event time of column {column!r}, which {having} has and {lacking} has "
        "not: rows of one source would make rows of another late, and the end of a source would change the query. "
        "Declare a watermark for {lacking}, too: @job.source(watermark=({column!r}, delay)). If it gives the rows of "
        "several sources, unite those sources here"
    )


class LeftOutInputError(InvalidInputError):
    """A query that would change when an ended input is left out. Data: vertex, location, inputs, problem."""

    template = (
        "the query of {vertex!r} ({location}) could not run on when {inputs} has ended and is left out: {problem}. "
        "Give all inputs of the union the same columns and the same watermark, and have the function build the same "
        "query without {inputs}"
    )


class ChangingRowsError(InvalidInputError):
    """State over rows that may be replaced. Data: uid, location, producer, mode."""

    template = (
        "{uid!r} ({location}) keeps state over the rows of {producer!r}, which change (output_mode {mode!r}): it would "
        "take each change of a row for another row, and its totals would be too high. Work on the inputs of "
        "{producer!r} instead, or have {producer!r} give each row once: a window over event time in output_mode "
        "'append', or bounded inputs, of which only the final answer is passed on"
    )


class InternalFilesError(InvalidInputError):
    """A query that would name files of a result partition. Data: uid, location, what, producer."""

    template = (
        "{what} in the query of {uid!r} ({location}) would name internal files: the rows of {producer!r} come through "
        "a result partition. Take it in the function of the source, as a column "
        "(rows.withColumn('file', F.input_file_name())), and read that column here"
    )


class WatermarkOverUnionError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set after the union of a bounded and a live source: the live one "
        "would make history late, and its rows would be dropped. Set it on each source "
        "(@job.source(watermark=(column, delay))), or call withWatermark on the input before anything else"
    )


class WatermarkOverPartitionError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set on the result of {producer!r}, which unites or joins several "
        "sources in a query of its own: it would follow the fastest of them, and rows of the others would be late. "
        "Set it on the sources and work on those, or let the two share a query (no chain=False, no sink or second "
        "consumer between them)"
    )


class IdleTimeoutError(InvalidInputError):
    template = (
        "the query of {vertex!r} cannot keep the idle_timeout of source {uid!r} ({location}): it reads the rows of the "
        "source from the query of {producer!r}, besides other inputs, and cannot see whether the source is idle. Let "
        "the two share a query (no chain=False, no sink or second consumer between them), or leave idle_timeout out"
    )


class HeldWatermarkError(InvalidInputError):
    """A bounded input that would hold event time after its end (R13)."""

    template = (
        "bounded input {uid!r} of {vertex!r} ({location}) has a watermark and is the only input of its parameter, "
        "so it cannot be left out when it ends, and the other inputs' event time would never advance; "
        "read it without a watermark"
    )


class GraphChangedError(InvalidInputError):
    template = (
        "the job is not the one its journal describes (operators that are gone: {gone}; that moved to another "
        "query: {moved}); change it back (a renamed operator keeps its state with uid= and its old name), run it under "
        "another job id, or drop the state of operators that are gone with allow_non_restored_state "
        "(--allow-non-restored-state)"
    )


class UnreleasedSinkGoneError(InvalidInputError):
    """A removed sink with output that is staged and not released.

    Data: job_id, sink, released and completed (numbers of checkpoints), release (a command).
    """

    template = (
        "sink {sink!r} is gone (or has another uid) in job {job_id!r}, and was released up to checkpoint {released} of "
        "{completed}: the rows that it has staged since would never be released. Release them first, with the job as "
        "it was (`{release}`, or a run that ends). If the sink was only renamed, give it its old uid"
    )


class PersistedStreamError(InvalidInputError):
    """A result of another job that is read with a streaming reader. Data: job_id, operator."""

    template = (
        "the result of {operator!r} of job {job_id!r} is read with a streaming reader; read it in mode 'batch', or by "
        "splits: @job.source(bounded=True, splits=lambda: "
        "JobClient(job.root, {job_id!r}).persisted_result({operator!r}).files)"
    )


class ReturnedSourceError(InvalidInputError):
    template = (
        "{source!r} was given up earlier, and the query of {vertex!r} continued without it. That query still has under "
        "this name how far it had read the source: give the source another uid"
    )


class EndingConsumersError(InvalidInputError):
    """Changed consumers of a vertex whose sources end. Data: vertex."""

    template = (
        "the consumers of {vertex!r} have changed, and it reads sources that end. It published its rows for the "
        "earlier consumers, and a new one would get only the rest. Change them back, let the new consumer read the "
        "source under another uid, or run the job under another id"
    )


class LostInputError(InvalidInputError):
    """An input that a vertex no longer reads, and whose rows would be lost. Data: vertex, producer."""

    template = (
        "{vertex!r} no longer reads {producer!r}, and may not have read all rows that {producer!r} published for it: "
        "these rows would be lost. Give {vertex!r} another uid, so that it starts empty, or change it back"
    )


class LateSourceError(InvalidInputError):
    template = (
        "source {source!r} is new in the query of {vertex!r}, which keeps state by event time and has run: its event "
        "time does not go back, and older rows of the new source would be dropped as late. Run the job "
        "under another id, or give {vertex!r} another uid so that it starts empty"
    )


class SchemaChangedError(InvalidInputError):
    template = (
        "the output of {vertex!r} changed between two tries, from {before} to {after}; "
        "run it under another job id, or change it back. If the job is the same, a new folder named column=value has "
        "added a column: the option recursiveFileLookup=true of the source leaves it out"
    )


class FrozenListLostError(TerminalError):
    """A frozen list of a bounded source that is lost. A new list could hold other files."""

    template = (
        "{uri} {problem}. It lists the files or offsets that a bounded source reads, as they were when the job first "
        "started, and a new list could hold others. Nothing was deleted because of it. Put it back from a backup and "
        "run the job again, or run the job under another id, from its input"
    )


class EndlessSourceError(InvalidInputError):
    """A bounded source whose end cannot be frozen (R11)."""

    template = (
        "bounded source {uid!r} ({location}) reads {format!r}, whose end cannot be known before it is read: a retry "
        "would take a later end than the first try. If that is acceptable, declare it: "
        '@job.source(bounded=True, ends="available_now"). Otherwise read it by splits, or in batch mode'
    )


class NeedlessEndsError(InvalidInputError):
    template = (
        "bounded source {uid!r} ({location}) has ends={ends!r} and reads {format!r}, whose end is frozen when the job "
        "first starts: leave it out"
    )


class LosingOptionError(InvalidInputError):
    template = "source {uid!r} ({location}) has the option {key}={value}: {why}; leave it out"


class LosingSettingError(InvalidInputError):
    template = "Spark setting {key}={value!r} is refused: {why}; remove the setting"


class UnreadableNameError(InvalidInputError):
    """A file whose name Spark's streaming reader takes for a pattern. Found before the job starts."""

    template = (
        "source {uid!r} ({location}) has a file whose name Spark's streaming reader takes for a pattern: {path}. It "
        "would read other files twice. Rename the file and its folders so that they hold none of {{ }} [ ] * ? \\, or "
        "run the job in batch mode."
    )


class UnreadableColonError(InvalidInputError):
    """A local file with a colon in its name. Found before anything is read."""

    template = (
        "source {uid!r} ({location}) has a file with a colon in its name, which Spark cannot read from a local disk: "
        "{path}. Rename the file."
    )


class SingleFileError(InvalidInputError):
    """A streaming source that reads a single file. Data: uid, location, path.

    Spark itself reports it only after the query has begun, in every try.
    """

    template = (
        "source {uid!r} ({location}) reads {path}, which is a file: Spark streams folders. Name the folder that it is "
        "in, or a pattern for files in it, or run the job in batch mode."
    )


class UnlistedFileError(InvalidInputError):
    """A file or folder that exists, and that Spark does not list."""

    template = (
        "source {uid!r} ({location}): Spark would leave out {path}: {problem}. Its rows would be missing. Rename it or "
        "give access to it; for names that are not ASCII, start the job in a UTF-8 locale (LC_ALL=C.UTF-8)."
    )


class UnknownFileStatusError(TerminalError):
    """A file system describes a file in a form that is not known. Data: status."""

    template = (
        "the file system describes a file as {status!r}, and this release cannot read the path, the size and the time "
        "in it. Read the files through another file system (docs/object-store.md), or report this text as a fault of "
        "this package"
    )


class BesidePartitionsError(InvalidInputError):
    """A file next to folders ``column=value``, which Spark lists and does not read."""

    template = (
        "source {uid!r} ({location}): {path} lies beside folders that are named column=value, and Spark reads only "
        "the files in such folders. Its rows would be missing. Move it into one, or give the source the option "
        "recursiveFileLookup=true, which takes no columns of the folders' names."
    )


class EmptyFileError(TransientError):
    """An empty file of a format whose files are never empty. Data: subject, file, format."""

    template = (
        "{subject} cannot read {file}: it is empty, and a {format} file never is. Spark would leave it out silently. "
        "Nothing of it was released. Another try reads the file again. If it stays empty, put the right file "
        "under its name: a {format} file without rows will do"
    )


class UnknownCompressionError(InvalidInputError):
    """A file whose compression Spark does not know. Data: subject, file, kind."""

    template = (
        "{subject} cannot read {file}: Spark does not know {kind}, and would read the bytes of the file as text. "
        "Nothing of it was released. Unpack it, or compress it with gzip, under a name that Spark knows (.gz), and "
        "move this file away. If a micro-batch was planned with it already, docs/producers.md says how to continue"
    )


class CleanSourceError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) has the option cleanSource={value}: Spark would delete or move files that no "
        "checkpoint covers, and a job that goes back to a checkpoint could not read them again. Leave the option out, "
        "and delete only files that a released checkpoint covers"
    )


class UnsupportedQueryError(InvalidInputError):
    template = "Spark cannot run the query of {vertex!r} ({location}) {how}: {cause}{hint}"


class TimeColumnError(InvalidInputError):
    """An output column of type TIME. Data: uid, location, column."""

    template = (
        "the output of operator {uid!r} ({location}) has the type TIME in column {column!r}. Spark writes this type to "
        "files only with spark.sql.timeType.enabled=true. Set that with --conf, or cast the column to STRING"
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


class WatermarkOverSplitsError(InvalidInputError):
    template = (
        "the watermark in {uid!r} ({location}) is set on the result of {producer!r}, whose splits are read in no "
        "order: rows of a split that is read later would be late, and dropped. Group by columns, or run the job in "
        "batch mode, where results are final without a watermark"
    )
