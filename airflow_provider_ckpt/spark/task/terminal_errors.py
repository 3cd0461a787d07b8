"""Failures of Spark and of Python workers that every retry would repeat until their cause is corrected."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_ckpt.errors import CkptError, TerminalError
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.app.query_failure import find_cause, jvm_text
from airflow_provider_ckpt.spark.query.sources.partition_folders import unfit_folders
from airflow_provider_ckpt.spark.task.errors import ExecutorPythonError, KafkaRowsGoneError, UnfitInputError
from airflow_provider_ckpt.storage.redaction import redact_uri

_IN_WORKER = re.compile(r"org\.apache\.spark\.api\.python\.|An exception was thrown from the Python worker")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^'\n]+)'")
_NO_NAME = re.compile(r"ImportError: cannot import name '[^'\n]+' from '(?P<module>[^'\n]+)'")
_OLD_MODULE = re.compile(r"AttributeError: Can't get attribute '[^'\n]+' on <module '(?P<module>[^'\n]+)'")
_PACKAGE = re.compile(r"\[PACKAGE_NOT_INSTALLED\] (?P<problem>[^\n]+)")
_VERSION = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\] Python in worker has different version: (?P<worker>[\d.]+) than that in driver: "
    r"(?P<driver>[\d.]+)"
)
_PROGRAM = re.compile(r'java\.io\.IOException: Cannot run program "(?P<program>[^"\n]+)": (?P<why>error=\d+, [^\n]+)')


def lacks_code(vertex: str, error: BaseException) -> CkptError | None:
    """Return the error for a Python worker that lacks code or has an unfit Python; None for any other failure."""
    text = jvm_text(error)
    program = _PROGRAM.search(text)
    if program is not None and "PythonWorkerFactory" in text:
        return ExecutorPythonError(vertex=vertex, problem=f"{program['program']} does not start ({program['why']})")
    if _IN_WORKER.search(text) is None:
        return None
    cause = find_cause(error).message
    for pattern in (_NO_MODULE, _NO_NAME, _OLD_MODULE):
        if match := pattern.match(cause):
            return ExecutorPythonError(
                "the query of vertex {vertex!r} failed in a Python worker, which has no module {module!r}, or another "
                "version of it. Nothing of the batch was released. Modules from the folder or package of the job's "
                "file are sent to executors if an import statement names them. For any other module, install it where "
                "the executors run, or send it: py_files in Airflow, --conf spark.submit.pyFiles=FILE.zip for `ckpt "
                "run`. Then start the job with --resume-failed",
                vertex=vertex,
                module=match["module"],
            )
    if match := _PACKAGE.search(cause):
        return ExecutorPythonError(vertex=vertex, problem=match["problem"].rstrip("."))
    if match := _VERSION.search(cause):
        problem = f"it is Python {match['worker']}, and the driver's is {match['driver']}"
        return ExecutorPythonError(vertex=vertex, problem=problem)
    return None


_COLUMN_TYPE = re.compile(
    r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] Encountered error while reading file (?P<file>.+?)\.\s+"
    r"Data type mismatches when reading Parquet column \[?(?P<column>.+?)\]?\. "
    r"Expected Spark type (?P<expected>.+?), actual Parquet type (?P<actual>.+?)\.(?:\s|$)"
)
_ROWS_GONE = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more;.*?Reason:\s*(?P<reason>.+?)"
    r"(?=\s+with consumer group|\s+=== Streaming Query ===|\.?\s*SQLSTATE|\n\s*at |\n\s*\n|\Z)",
    re.DOTALL,
)
_START_UNFIT = re.compile(
    r"If (?P<key>startingOffsets) contains specific offsets, you must specify all TopicPartitions"
    # only for timestamps: Spark gives the same message for offsets of a batch, whose range this package has set
    r"|Partitions specified for Kafka (?P<by_time>timestamp based) start offsets don't match what are assigned"
)
_COMPUTATION = re.compile(
    r"\[(?P<condition>CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO|CANNOT_PARSE_TIMESTAMP|"
    r"NUMERIC_VALUE_OUT_OF_RANGE)(?:\.\w+)?\] "
)
_CAST = re.compile(r'of the type "(?P<actual>[\w(), <>:]+)" cannot be cast to "(?P<wanted>[\w(), <>:]+)"')
_CALLED = re.compile(r"was called from\s+(?P<where>\S+:\d+)")

_READING = r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<file>.+?)\.\s.*?"
_TWICE = re.compile(
    _READING + r"Found duplicate field\(s\) \"[^\"]*\": \[(?P<columns>[^\]\n]*)\] in case-insensitive mode", re.DOTALL
)
_MALFORMED = re.compile(_READING + r"\[MALFORMED_RECORD_IN_PARSING", re.DOTALL)
_COLUMN = re.compile(
    r"\[CANNOT_PARSE_JSON_FIELD\] Cannot parse the field name [`']?(?P<column>.+?)[`']? and the value "
)
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\n Header: (?P<header>.*?)\n Schema: (?P<schema>.*?)\nExpected: .*?\n"
    r"CSV file: (?P<file>[^\n]+)",
    re.DOTALL,
)
_HEADER_LENGTH = re.compile(
    r"Number of column in CSV header is not equal to number of fields in the schema:\n Header length: (?P<length>\d+), "
    r"schema size: (?P<expected>\d+)\nCSV file: (?P<file>[^\n]+)"
)


def terminal_error(vertex: str, error: BaseException, files: Sequence[str] = ()) -> CkptError | None:
    """Return the error for a failure that every retry would repeat; None for any other failure.

    ``files`` are the normal paths of the files that the batch reads.
    """
    text = jvm_text(error)
    match = _ROWS_GONE.search(text)
    if match is not None:
        reason = " ".join(match["reason"].split()).rstrip(".")
        return KafkaRowsGoneError(vertex=vertex, reason=f"{reason}.")
    unfit = _START_UNFIT.search(text)
    if unfit is not None:
        key = "startingOffsetsByTimestamp" if unfit["by_time"] else "startingOffsets"
        return TerminalError(
            "the query of vertex {vertex!r} cannot start: {key} of its Kafka source must name each partition of the "
            "topics that it reads, and no other. Nothing was read. Correct it, but keep the topics, and start the job "
            "with --resume-failed",
            vertex=vertex,
            key=key,
        )
    lacking = lacks_code(vertex, error)
    if lacking is not None:
        return lacking
    unfit_folder = unfit_folders(f"the query of vertex {vertex!r}", text)
    return _unfit_file(vertex, text) or unfit_folder or _failed_computation(vertex, text, files)


def _failed_computation(vertex: str, text: str, files: Sequence[str]) -> CkptError | None:
    match = _COMPUTATION.search(text)
    if match is None:
        return None
    types, called = _CAST.search(text), _CALLED.search(text)
    cast = "" if types is None else f": a value of type {types['actual']} cannot be cast to {types['wanted']}"
    where = "" if called is None else f", at {called['where']}"
    problem = f"{match['condition']}{cast}{where}"
    return UnfitInputError(
        "the query of vertex {vertex!r} failed{files}: {problem}. Nothing of the batch was released. Another try "
        "would fail at the same value. Correct the function (try_cast, try_divide and the like give null) or the "
        "file, and start the job with --resume-failed",
        vertex=vertex,
        problem=problem,
        files=_in_files(files),
    )


def _in_files(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = f" and {counted(len(files) - 1, 'more file')}" if len(files) > 1 else ""
    return f" in the batch that reads /{redact_uri(files[0])}{more}"


def malformed_file(error: BaseException) -> str | None:
    """Return the URI (perhaps with secrets) of the file with a malformed row; None for any other failure."""
    match = _MALFORMED.search(jvm_text(error))
    return None if match is None else match["file"]


def _unfit_file(vertex: str, text: str) -> CkptError | None:
    """Return the error for a file whose columns the source cannot read; None for any other failure."""
    match = _COLUMN_TYPE.search(text)
    if match is not None:
        return unfit_column(vertex, redact_uri(match["file"]), match["column"], match["expected"], match["actual"])
    twice = _TWICE.search(text)
    if twice is not None:
        return UnfitInputError(
            "the query of vertex {vertex!r} cannot read {file}: it has columns with the same name, {columns}. Nothing "
            "of the batch was released. Write the file again under its name, with different column names, and start "
            "the job with --resume-failed. If the names differ only in case, spark.sql.caseSensitive=true with "
            "--new-settings reads them separately",
            vertex=vertex,
            file=redact_uri(twice["file"]),
            columns=twice["columns"],
        )
    malformed = _MALFORMED.search(text)
    if malformed is not None:
        column = _COLUMN.search(text)
        where = "a row" if column is None else f"the column {column['column']} of a row"
        return UnfitInputError(
            "the query of vertex {vertex!r} cannot read {file}: {where} does not fit the schema, and the source fails "
            "at such rows (on_malformed='fail', or the reader's mode=FAILFAST). Nothing of the batch was released. "
            "Correct the file under its name, and start the job with --resume-failed",
            vertex=vertex,
            file=redact_uri(malformed["file"]),
            where=where,
        )
    header = _HEADER.search(text)
    if header is not None:
        problem = _header_problem(header["header"].split(", "), header["schema"].split(", "))
        return _unfit_header(vertex, header["file"], problem)
    length = _HEADER_LENGTH.search(text)
    if length is not None:
        problem = f"it has {counted(int(length['length']), 'column')}, and the schema has {length['expected']}"
        return _unfit_header(vertex, length["file"], problem)
    return None


def unfit_column(vertex: str, file: str, column: str, expected: str, actual: str) -> UnfitInputError:
    """Return the error for a column of a Parquet file whose type the source does not read."""
    return UnfitInputError(
        "the query of vertex {vertex!r} cannot read {file}: column {column} is {actual} in the file (Parquet's name), "
        "but {expected} in the schema. Nothing of the batch was released. Write the file again under its name, with "
        "the type of the schema, and start the job with --resume-failed; or run the job under another id, with a "
        "schema for both types",
        vertex=vertex,
        file=file,
        column=column,
        expected=expected,
        actual=actual,
    )


def _unfit_header(vertex: str, file: str, problem: str) -> UnfitInputError:
    return UnfitInputError(
        "the query of vertex {vertex!r} cannot read {file}: {problem}. Columns of a CSV file are read by position. "
        "Nothing of the batch was released. Write the file again under its name, with the columns of the schema in "
        "their order, and start the job with --resume-failed. If the order is right and only the names differ, give "
        "the source the option enforceSchema=true, which ignores the header",
        vertex=vertex,
        file=redact_uri(file),
        problem=problem,
    )


def _header_problem(header: list[str], schema: list[str]) -> str:
    """Return how a header differs from the schema. Names that only the header has are omitted: they may be values."""
    present = {name.lower() for name in header}
    missing = [name for name in schema if name.lower() not in present]
    if missing:
        return f"its header does not have {', '.join(missing)} at the place that the schema gives"
    return f"its header has the order {', '.join(header)}, and the schema has {', '.join(schema)}"
