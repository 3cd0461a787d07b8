"""A source that reads the result of another job (``persist=True``)."""

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

    Call it in the function of a bounded source, with the reader of the function or with ``spark.read``::

        @job.source(bounded=True)
        def history(read):
            return read_persisted(read, job.root, "history", "clean")

    ``root`` is the root of the other job, which may differ from the root of this run. The files are frozen with the
    source, when the job that reads them first starts (R11). Delete the other job after this one has FINISHED.

    Raises what :meth:`JobClient.persisted_result` raises, and UnfitSourceError for a streaming reader. Spark would
    list folders there, and not read the named files. In a job that does not end, read the files by splits::

        @job.source(bounded=True, splits=lambda: JobClient(job.root, "history").persisted_result("clean").files)
        def history(read, split):
            return read.parquet(split)

    A result without rows has no files, and so no splits. If the result may be empty, declare ``splits=["all"]``, and
    call this function in the source's function.
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
    """Return a frame without rows. There is no path that Spark could read."""
    if isinstance(reader, BatchReader):
        reader.reads.loads += 1
    frame: DataFrame = reader._spark.createDataFrame([], schema)
    if isinstance(reader, BatchReader):
        reader.reads.schema = frame.schema
    return frame
