"""Description of the input that a drain has left unread in a live source."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.spark.query.kafka.freezing import ask_offsets
from airflow_provider_ckpt.spark.query.sources.file_polls import listed
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.sparkfiles.errors import DamagedOffsetError
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset, planned_times
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.task.read_files import key_of


def left_input(
    spark: SparkSession, folder: SparkFolder, uid: str, reads: SourceReads, offset: str | None
) -> str | None:
    """Describe the input of a source after ``offset``, its last published offset. Return None if there is none.

    Return None, too, for a source that reads neither files nor Kafka, and if the brokers do not answer.
    """
    if reads.is_file:
        return _left_files(spark, folder, uid, reads, offset)
    return _left_rows(spark, uid, reads, offset) if reads.is_kafka else None


def _left_files(
    spark: SparkSession, folder: SparkFolder, uid: str, reads: SourceReads, offset: str | None
) -> str | None:
    read = planned_times(folder.storage, f"{folder.path}/sources/{uid}", log_offset(offset))
    left = [file for file in listed(spark, reads) if key_of(file.path) not in read]
    size = counted(sum(file.size for file in left), "byte")
    return f"{counted(len(left), 'file')} ({size}) unread" if left else None


def _left_rows(spark: SparkSession, uid: str, reads: SourceReads, offset: str | None) -> str | None:
    try:
        there = ask_offsets(spark, uid, uid, reads.options)
        read = offset_object(offset) or {}
        with refused_as(lambda why: DamagedOffsetError(offset=uid, problem=why)):
            ends = {one: int(read.get(one.topic, {}).get(str(one.partition), one.end)) for one in there.partitions}
    except CkptError:  # the description is for information only
        return None
    left = {one: one.end - end for one, end in ends.items()}
    count = sum(rows for rows in left.values() if rows > 0)
    return f"{counted(count, 'row')} unread" if count else None
