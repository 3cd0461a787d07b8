"""Checks of the files that a batch reads, for files that Spark would misread and for malformed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.analysed_plan import analysed
from airflow_provider_ckpt.spark.task.batch_execution import execution_of_batch
from airflow_provider_ckpt.spark.task.batch_files import refuse_unfit_files
from airflow_provider_ckpt.spark.task.malformed_rows import (
    Choose,
    MalformedRows,
    malformed_of_batch,
    malformed_of_frame,
)
from airflow_provider_ckpt.spark.task.unfit_rows import unfit_content


@dataclass(frozen=True)
class SourceContent:
    """Checks of file contents for a vertex with sources.

    Attributes:
        streaming: its batches are micro-batches of a query.
        choose: leaves out files that a source does not read.
    """

    spark: SparkSession
    vertex: str
    streaming: bool
    choose: Choose

    def refuse_unfit(self, frame: DataFrame) -> None:
        """Refuse files before a batch is read. The files of a micro-batch are checked where they are planned.

        Raises EmptyFileError, UnreadableFileError, UnfitInputError.
        """
        if not self.streaming:
            refuse_unfit_files(self.spark, self.vertex, self._plan(frame))

    def unfit(self, frame: DataFrame, error: BaseException) -> CkptError | None:
        """Return the error for a file whose content made the batch fail; None for any other failure."""
        return (
            None if isinstance(error, CkptError) else unfit_content(self.spark, self.vertex, self._plan(frame), error)
        )

    def malformed(self, frame: DataFrame, quarantines: Mapping[str, str]) -> MalformedRows:
        """Return the malformed rows of a batch that was read. Raises UnfitInputError.

        ``quarantines``: source -> the sink that is given its malformed rows. A warning names it.
        """
        if self.streaming:
            return malformed_of_batch(self.spark, self.vertex, self.choose, quarantines)
        return malformed_of_frame(frame, self.vertex, quarantines)

    def _plan(self, frame: DataFrame) -> Any:
        return execution_of_batch(self.spark, self.vertex).logical() if self.streaming else analysed(frame)
