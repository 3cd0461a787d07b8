"""Files that turned up in a bounded source's folder after its end was frozen."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from airflow_provider_ckpt.journal.events import LateFilesFound
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles, list_files, read_frozen, unescaped_path
from airflow_provider_ckpt.spark.query.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)
_ANY_SCHEMA = StructType().add("value", StringType())
"""Files are listed, not read: with a schema Spark infers none from their contents."""


def find_late_files(
    spark: SparkSession,
    state: JobState,
    reads: Mapping[str, SourceReads],
    frozen: Mapping[str, FrozenEnd],
    read: Collection[str],
) -> Iterator[LateFilesFound]:
    """Name them, with whether each was read all the same: before the source's end. Those that the journal knows
    are left out. ``read``: normal paths of the late files that queries have read."""
    known = {(event.uid, path) for event in state.late_files for path in event.paths}
    for uid, files in frozen.items():
        if not isinstance(files, FrozenFiles):
            continue  # what comes to a topic behind the end of a source belongs to others
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


def of_finished(storage: Storage, state: JobState) -> tuple[dict[str, SourceReads], dict[str, FrozenFiles]]:
    """What the bounded file sources read that are over, and what their ends were, by uid. Their functions are not
    called any more, so it is told from what the journal recorded while they were. One whose list is lost is left out.
    Raises NewerFormatError."""
    definition = state.definition
    reads: dict[str, SourceReads] = {}
    frozen: dict[str, FrozenFiles] = {}
    for uid, source in ({} if definition is None else definition.sources).items():
        known = state.frozen.get(uid)
        if source.format is not None and source.paths and known is not None and known.path is not None:
            reads[uid] = SourceReads(source.format, dict(source.selects), list(source.paths), schema=_ANY_SCHEMA)
            try:
                frozen[uid] = read_frozen(storage, f"{state.job_id}/{known.path}")
            except FrozenListLostError as error:  # no reason to be silent about the other sources
                log.warning("finished source %s cannot be looked at for late files: %s", uid, error)
    return reads, frozen
