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

    @property
    def shows_row_count(self) -> bool:
        """Whether the row count is read off the files. Spark then writes a file even for an empty frame, so
        that no file at all means that the executors write elsewhere; partitioned output has no such file."""
        encrypted = any(option.startswith("parquet.encryption.") for option in self.options)
        return self.format == "parquet" and not self.partition_by and not encrypted
