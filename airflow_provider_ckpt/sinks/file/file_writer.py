"""The Spark writer of a file sink, and its check for blank lines of CSV, which Spark's reader omits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.sinks.write_settings import writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLANK_LINE = "CKPT_CSV_BLANK_LINE"
"""The text in Spark's error for a row that would be a blank line."""
_BLANKS = "".join(map(chr, range(33)))
"""The characters that Spark, like Java, treats as white space."""

Format = Literal["parquet", "json", "csv", "orc"]

_WRITER_OPTIONS = {
    # Version 1 leaves only the output of the winning task attempts in the place. Version 2 moves files when a task
    # commits, and may leave the files of a task that ran again.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_TRIMS = ("ignoreleadingwhitespace", "ignoretrailingwhitespace")
_ESCAPED = {r"\t": "\t", r"\r": "\r", r"\b": "\b", r"\f": "\f", r"\u0000": "\0"}


@dataclass(frozen=True)
class FileWriter:
    format: Format
    partition_by: Sequence[str]
    options: Mapping[str, Any] = field(repr=False)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Spark setting -> its accepted values, as in :func:`..write_settings.writing`."""

    def write(self, frame: DataFrame, uri: str) -> None:
        """Write the frame to a new folder. ``uri``: the folder's URI in Hadoop's spelling."""
        writer = frame.write.format(self.format).mode("errorifexists")
        writer = writer.options(**self.options).options(**_WRITER_OPTIONS)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        with writing(frame.sparkSession, self.settings):
            writer.save(uri)

    def refused_options(self, frame: DataFrame, uri: str) -> list[str]:
        """Return the options that make Spark's writer fail even without rows. Called after a write has failed.

        Each option is tried alone, in folders of ``uri``, because Spark raises many kinds of errors for bad options.
        All options are returned if only their combination fails, none if the options are not the cause.
        """

        def fails(trial: str, options: Mapping[str, Any]) -> bool:
            try:
                empty_frame = frame.sparkSession.createDataFrame([], frame.schema)
                replace(self, options=options).write(empty_frame, f"{uri}/~trial-{trial}")
            except Exception:
                return True
            return False

        # A failure of the storage at this moment must not end the job for good as if the options were wrong.
        if not self.options or not fails("all", self.options) or fails("none", {}) or not fails("again", self.options):
            return []
        refused = [
            name for number, (name, value) in enumerate(self.options.items()) if fails(str(number), {name: value})
        ]
        return refused or list(self.options)

    def blank_lines(self, frame: DataFrame) -> BlankLines | None:
        """Return the rule for rows that would be blank lines; None if no row can be one."""
        if self.format != "csv":
            return None
        folders = {name.casefold() for name in self.partition_by}
        columns = [column for column in frame.schema if column.name.casefold() not in folders]
        separator = _unescaped(self._option("sep", self._option("delimiter", ",")))
        if not columns or (len(columns) > 1 and not is_blank(separator)):
            return None
        trims = any(self._option(name, "true").lower() == "true" for name in _TRIMS)
        quotes = self._option("quoteall", "false").lower() == "true"
        rule = BlankLines(
            {column.name: _is_text(column.dataType.simpleString()) for column in columns},
            null=is_blank(self._option("nullvalue", "")),
            empty=is_blank(self._option("emptyvalue", '""')) and not quotes,
            blanks=not trims and not quotes,
            quoted=separator if len(separator) == 1 and is_blank(separator) else "",
        )
        return rule if rule.can_occur else None

    def _option(self, name: str, default: str) -> str:
        """Return an option's value. ``name`` is in lower case, because Spark compares option names without case."""
        return next((str(value) for option, value in self.options.items() if option.lower() == name), default)

    @property
    def shows_row_count(self) -> bool:
        """True if the row count can be read from the files: unencrypted Parquet without partitions.

        Spark then writes a file even for an empty frame. If there is no file, the executors write to a folder that the
        driver does not see.
        """
        encrypted = any(option.startswith("parquet.encryption.") for option in self.options)
        return self.format == "parquet" and not self.partition_by and not encrypted


@dataclass(frozen=True)
class BlankLines:
    """The rule by which a row becomes a blank line of CSV. Such rows need a single column or a blank separator.

    Args:
        columns: column -> True if the column is a text.
        null: True if the writer writes a null as blank text.
        empty: True if the writer writes an empty text as blank text. If it trims, a text of blanks counts as empty.
        blanks: True if the writer writes a text of blanks unchanged.
        quoted: characters that make the writer quote a text, besides line ends.
    """

    columns: Mapping[str, bool]
    null: bool
    empty: bool
    blanks: bool
    quoted: str

    @property
    def can_occur(self) -> bool:
        return all(any(True for _ in self._conditions("", is_text)) for is_text in self.columns.values())

    def with_check(self, frame: DataFrame) -> DataFrame:
        """Return the frame with a check that fails the query at the first row that would be a blank line."""
        blank = (" OR ".join(self._conditions(quoted(name), is_text)) for name, is_text in self.columns.items())
        condition = " AND ".join(f"({column_condition})" for column_condition in blank)
        first = next(iter(self.columns))
        checked = f"CASE WHEN {condition} THEN raise_error('{BLANK_LINE}') ELSE {quoted(first)} END AS {quoted(first)}"
        return frame.selectExpr(*(checked if name == first else quoted(name) for name in frame.columns))

    def _conditions(self, column: str, is_text: bool) -> Iterator[str]:
        """Yield SQL conditions. A row for which any of them is true has only blanks for this column in its line."""
        if self.null:
            yield f"{column} IS NULL"
        if not is_text:
            return
        text, blank = f"CAST({column} AS STRING)", r"'^[\\x00-\\x20]*$'"
        if self.empty:
            yield f"{text} = ''" if self.blanks else f"{text} RLIKE {blank}"
        if self.blanks:  # the writer quotes a text with a line end or a separator
            line = _literal(f"[\r\n{self.quoted}]")
            yield f"{text} <> '' AND {text} RLIKE {blank} AND NOT {text} RLIKE {line}"


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


def _literal(text: str) -> str:
    return "'" + "".join(rf"\u{ord(char):04x}" if char in _BLANKS else char for char in text) + "'"


def _unescaped(separator: str) -> str:
    r"""Return the separator as Spark reads it: escapes such as ``\t`` become characters."""
    for spelled, meant in _ESCAPED.items():
        separator = separator.replace(spelled, meant)
    return separator


def _is_text(kind: str) -> bool:
    return kind.startswith(("string", "char", "varchar", "binary"))
