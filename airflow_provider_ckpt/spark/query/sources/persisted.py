"""Function for a source that reads the kept result of an operator of another job (``persist=True``)."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.sources.reader import BatchReader
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.storage.location import Location


def read_persisted(read: Any, root: Location | str | os.PathLike[str], job_id: str, operator: str) -> DataFrame:
    """Return all rows of ``operator`` in the FINISHED job ``job_id``.

    Call this function in the function of a bounded source. ``read`` is the source's reader or ``spark.read``::

        @job.source(bounded=True)
        def history(read):
            return read_persisted(read, job.root, "history", "clean")

    ``root`` is the root of the other job, which may differ from the root of this run. The list of files is frozen when
    the reading job first starts (R11). Delete the other job only after the reading job has FINISHED.

    Raises what :meth:`JobClient.persisted_result` raises, and UnfitSourceError for a streaming reader, because Spark
    streams folders, not files. In a job with live sources, read the files by splits::

        @job.source(bounded=True, splits=lambda: JobClient(job.root, "history").persisted_result("clean").files)
        def history(read, split):
            return read.parquet(split)

    A result without rows has no files, and so no splits. If the result may be empty, declare ``splits=["all"]``, and
    call ``read_persisted`` in the source's function.
    """
    if isinstance(read, DataStreamReader):
        raise UnfitSourceError(
            "the result of {operator!r} of job {job_id!r} is read with a streaming reader; read it in mode 'batch', "
            "or by splits: @job.source(bounded=True, splits=lambda: JobClient(job.root, "
            "{job_id!r}).persisted_result({operator!r}).files)",
            job_id=job_id,
            operator=operator,
        )
    result = JobClient(root, job_id).persisted_result(operator)
    schema = stored_schema(result.schema)
    # the folders of the root are not columns, whatever their names are
    reader = read.option("recursiveFileLookup", "true").schema(schema)
    if not result.files:
        return _nothing(reader, schema)
    frame: DataFrame = (
        reader.parquet(list(result.files)) if isinstance(read, BatchReader) else reader.parquet(*result.files)
    )
    return frame


def _nothing(reader: Any, schema: StructType) -> DataFrame:
    """Return a frame without rows for a result without files, and record it in the reader as a loaded source."""
    if isinstance(reader, BatchReader):
        reader.reads.loads += 1
    frame: DataFrame = reader._spark.createDataFrame([], schema)
    if isinstance(reader, BatchReader):
        reader.reads.schema = frame.schema
    return frame
