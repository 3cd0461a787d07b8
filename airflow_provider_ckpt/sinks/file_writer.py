"""How a file sink's frames become files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Format = Literal["parquet", "json", "csv", "orc"]

_WRITER_OPTIONS = {
    # When the write returns, the place holds what the winning task attempts wrote: version 2 moves files in
    # when a task commits, and may leave those of a task that was run again.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


NULL_LINE = "CKPT_CSV_NULL_LINE"
"""What a row fails with that would be no line."""


@dataclass(frozen=True)
class FileWriter:
    format: Format
    partition_by: Sequence[str]
    options: Mapping[str, Any] = field(repr=False)

    def write(self, frame: DataFrame, uri: str) -> None:
        """Write to a new folder, given as Hadoop spells its URI."""
        writer = frame.write.format(self.format).mode("errorifexists")
        writer = writer.options(**self.options).options(**_WRITER_OPTIONS)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.save(uri)

    def only_column(self, frame: DataFrame) -> str | None:
        """The column of which a null would be an empty line, which Spark's CSV writer leaves out; None if there is
        none."""
        if self.format != "csv" or self._option("nullvalue", ""):
            return None
        folders = {name.casefold() for name in self.partition_by}
        names = [name for name in frame.columns if name.casefold() not in folders]
        return names[0] if len(names) == 1 else None

    def without_null_lines(self, frame: DataFrame, column: str) -> DataFrame:
        """Whoever reads it fails at a value of the only column that would be an empty line."""
        quoted = {name: "`" + name.replace("`", "``") + "`" for name in frame.columns}
        kept = quoted[column]
        empty = f"{kept} IS NULL"
        if self._option("emptyvalue", '""') == "":
            empty += f" OR CAST({kept} AS STRING) = ''"
        checked = f"CASE WHEN {empty} THEN raise_error('{NULL_LINE}') ELSE {kept} END AS {kept}"
        return frame.selectExpr(*(checked if name == column else quoted[name] for name in frame.columns))

    def _option(self, name: str, default: str) -> str:
        """``name`` in lower case: Spark compares without case."""
        return next((str(value) for given, value in self.options.items() if given.lower() == name), default)

    @property
    def shows_row_count(self) -> bool:
        """Whether the row count is read off the files. Spark then writes a file even for an empty frame, so
        that no file at all means that the executors write elsewhere; partitioned output has no such file."""
        encrypted = any(option.startswith("parquet.encryption.") for option in self.options)
        return self.format == "parquet" and not self.partition_by and not encrypted
