"""Files that a source still has to read, that are gone, and that somebody gives up (``forget_files``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.errors import ForgottenFileThereError
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.task.read_files import key_of


def newly_forgotten(spark: SparkSession, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are given up with this run. ``known``: those that were given up before.

    Raises ForgottenFileThereError.
    """
    before = {key_of(path) for path in known}
    new = [path for path in dict.fromkeys(given) if key_of(path) not in before]
    for path in new:
        if _is_there(spark, path):
            raise ForgottenFileThereError(file=redact_uri(path))
    return tuple(map(redact_uri, new))


def _is_there(spark: SparkSession, path: str) -> bool:
    """Return False for a file system that Spark cannot reach: the job does not read from it."""
    jvm: Any = spark._jvm
    try:
        place = jvm.org.apache.hadoop.fs.Path(path)
        return bool(place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(place))
    except Py4JError:
        return False
