"""Options of the Parquet files between queries. Each read and write sets them, so the user's settings do not apply."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_provider_ckpt.sinks.write_settings import LOSSLESS, writing

READ: dict[str, str] = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_WRITE = {
    "maxRecordsPerFile": "0",
    # version 2 moves files when a task commits, so files of a task that ran twice may remain
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
_EXCHANGE = {
    "compression": "snappy",
    # files are read once or twice and deleted: a dictionary costs more than it saves (a quarter of a write of numbers)
    "parquet.enable.dictionary": "false",
}


def read_files(spark: SparkSession, schema: StructType, *paths: str) -> DataFrame:
    return spark.read.options(**READ).schema(schema).parquet(*paths)


def write_files(frame: DataFrame, uri: str, *, is_kept: bool) -> None:
    """Write the rows of ``frame`` as Parquet files to a new folder ``uri``.

    ``is_kept``: True if other jobs read the files. Otherwise they live only briefly, and have no Parquet dictionaries.
    """
    options = _WRITE if is_kept else {**_WRITE, **_EXCHANGE}
    with writing(frame.sparkSession, LOSSLESS):
        frame.write.options(**options).parquet(uri)
