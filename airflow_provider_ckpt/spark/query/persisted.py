"""A source that reads what another job keeps (``persist=True``)."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.spark.query.errors import PersistedStreamError
from airflow_provider_ckpt.spark.query.reader import BatchReader
from airflow_provider_ckpt.spark.query.stored_schemas import stored_schema
from airflow_provider_ckpt.storage.location import Location


def read_persisted(read: Any, root: Location | str | os.PathLike[str], job_id: str, operator: str) -> DataFrame:
    """All rows that ``operator`` of the FINISHED job gave. Called in the function of a bounded source, with the reader
    that it was given, or with ``spark.read``::

        @job.source(bounded=True)
        def history(read):
            return read_persisted(read, job.root, "history", "clean")

    ``root``: the one of the other job, if it is not that of this run. Which files these are is frozen with the source,
    at the first start of the job that reads them (R11). Delete the other job when this one has FINISHED.

    Raises as :meth:`JobClient.persisted_result`, and PersistedStreamError for a streaming reader: Spark would list
    folders, and not read what is named. In a job that does not end, read the files by splits::

        @job.source(bounded=True, splits=lambda: JobClient(job.root, "history").persisted_result("clean").files)
        def history(read, split):
            return read.parquet(split)

    A result without rows has no files: with ``splits=["all"]`` and this function in the source's it may be empty.
    """
    if isinstance(read, DataStreamReader):
        raise PersistedStreamError(job_id=job_id, operator=operator)
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
    """A frame without rows: there is no path that Spark could be given."""
    if isinstance(reader, BatchReader):
        reader.reads.loads += 1
    frame: DataFrame = reader._spark.createDataFrame([], schema)
    if isinstance(reader, BatchReader):
        reader.reads.schema = frame.schema
    return frame
