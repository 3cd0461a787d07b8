"""Files that turned up in a bounded source's folder after its end was frozen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from airflow_provider_ckpt.journal.events import LateFilesFound
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles, list_files, read_frozen, unescaped_path
from airflow_provider_ckpt.spark.query.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.known_late import KnownLate
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)
NAMED = 100
"""So many of the files that are found at once are named in the journal."""
_ANY_SCHEMA = StructType().add("value", StringType())
"""Files are listed, not read: with a schema Spark infers none from their contents."""


def name_late_files(
    spark: SparkSession,
    storage: Storage,
    state: JobState,
    reads: Mapping[str, SourceReads],
    frozen: Mapping[str, FrozenEnd],
    read: Collection[str],
    tell: Callable[[LateFilesFound], None],
) -> None:
    """Tell of those that nobody was told of, with whether each was read all the same: before the source's end.

    ``read``: normal paths of the late files that queries have read. Of whoever dies in here some are told of once more.
    Raises what ``tell`` and the storage fail with, and NewerFormatError."""
    for uid, files in frozen.items():
        if not isinstance(files, FrozenFiles):
            continue  # what comes to a topic behind the end of a source belongs to others
        try:
            listed = list_files(spark, reads[uid])
        except (PySparkException, Py4JError) as error:  # a folder that is gone after it was read has no late files
            log.warning("bounded source %s cannot be listed for late files: %s", uid, error)
            continue
        late = [path for path in listed if unescaped_path(path) not in files.normal]
        if late:
            _tell_new(late, _known_of(storage, state, uid), uid, state, read, tell)


def _tell_new(
    late: Collection[str],
    kept: KnownLate | None,
    uid: str,
    state: JobState,
    read: Collection[str],
    tell: Callable[[LateFilesFound], None],
) -> None:
    known = set() if kept is None else set(kept.read())
    known |= {path for event in state.late_files if event.uid == uid for path in event.paths}  # of earlier releases
    new = [path for path in late if path not in known]
    for was_read in (True, False):
        paths = [path for path in new if (unescaped_path(path) in read) is was_read]
        if paths:
            count = len(paths) if len(paths) > NAMED else None
            tell(LateFilesFound(uid, tuple(paths[:NAMED]), was_read, time.time(), count))
    if new and kept is not None:
        kept.write(known | {*new})


def _known_of(storage: Storage, state: JobState, uid: str) -> KnownLate | None:
    of_source = state.frozen.get(uid)
    if of_source is None or of_source.path is None:
        return None
    return KnownLate(storage, f"{state.job_id}/{of_source.path}", uid)


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
