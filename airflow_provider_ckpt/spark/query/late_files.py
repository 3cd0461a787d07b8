"""Files that turned up in a bounded source's folder after its end was frozen."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_ckpt.journal.events import LateFilesFound
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles, list_files, unescaped_path
from airflow_provider_ckpt.spark.query.reader import SourceReads

log = logging.getLogger(__name__)


def find_late_files(
    spark: SparkSession,
    state: JobState,
    reads: Mapping[str, SourceReads],
    frozen: Mapping[str, FrozenFiles],
    read: Collection[str],
) -> Iterator[LateFilesFound]:
    """Name them, with whether each was read all the same: before the source's end. Those that the journal knows
    are left out. ``read``: normal paths of the late files that queries have read."""
    known = {(event.uid, path) for event in state.late_files for path in event.paths}
    for uid, files in frozen.items():
        try:
            listed = list_files(spark, reads[uid])
        except (PySparkException, Py4JError) as error:  # a folder that is gone after it was read has no late files
            log.warning("bounded source %s cannot be listed for late files: %s", uid, error)
            continue
        late = [path for path in listed if unescaped_path(path) not in files.normal and (uid, path) not in known]
        for was_read in (True, False):
            paths = tuple(path for path in late if (unescaped_path(path) in read) is was_read)
            if paths:
                yield LateFilesFound(uid, paths, was_read, time.time())
