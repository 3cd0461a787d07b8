"""Outputs of a batch, staged for every sink and written to the result partition.

Each call of :meth:`Outputs.stage` writes to new paths, even a second call for the same batch (R5). Unpublished files
of earlier attempts are deleted: staged output, data for the next vertex, and copies (R5).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from io import BytesIO

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.errors import OvertakenError
from airflow_provider_ckpt.jobmaster.retention.orphaned_output import staged_orphans
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sinks.result_checks import checked_handle_of
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, StageRequest, attempt_of
from airflow_provider_ckpt.spark.query.sources.exchange_files import read_files, write_files
from airflow_provider_ckpt.spark.task.malformed_rows import MalformedRows
from airflow_provider_ckpt.spark.task.over_partitions import over_partitions
from airflow_provider_ckpt.spark.task.source_content import SourceContent
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.attempts import fenced
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile
from airflow_provider_ckpt.task.sink_wait import SinkWait

log = logging.getLogger(__name__)
_FOOTER_CHECK = 64 * 1024


@dataclass(frozen=True)
class PartitionTarget:
    """The result partition that a subtask writes.

    Attributes:
        root: the folder that paths of files are relative to.
        data: the folder of the files.
        persist: True if the files outlive the job.
    """

    root: str
    data: str
    persist: bool = False


class Outputs:
    """The outputs of one attempt of a subtask.

    Args:
        partition: the result partition; None if no other vertex reads the output.
        scratch: folder for a copy that several outputs read.
        wait: (sink uid, ``is_over``) → the :class:`SinkWait` for one batch. ``is_over`` returns True if the run is
            over.
        is_stateful: True if the query has state, so that its frame cannot be computed twice.
        sources: checks the content of the sources' files; None for a vertex without sources.
        quarantines: source → the sink for its malformed rows, which gets no other rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        attempt: AttemptId,
        sinks: Mapping[str, BoundSink],
        partition: PartitionTarget | None,
        scratch: str,
        *,
        wait: Callable[[str, Callable[[], bool]], SinkWait] = SinkWait.single_try,
        is_stateful: bool = False,
        sources: SourceContent | None = None,
        quarantines: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._attempt = attempt
        self._sinks = sinks
        self._sources, self._quarantines = sources, quarantines or {}
        self._main = [uid for uid in sinks if uid not in self._quarantines.values()]
        self._partition = partition
        self._scratch = scratch
        self._wait, self._is_stateful = wait, is_stateful

    def stage(self, frame: DataFrame, batch_id: int, is_over: Callable[[], bool] = lambda: False) -> Prepared:
        """Stage the rows of the frame in all outputs, and return the record of the batch.

        Several outputs read one copy, so that the frame is computed only once (R18). If a sink's target fails
        temporarily, the sink's call is repeated, at most for the run's ``sink_timeout``. A repeated call reads the
        copy. Without a copy, it computes the frame again, but only if the query has no state. A second computation
        would change the state again. Output of failed calls is never published.

        Malformed rows are counted, and staged in their quarantines.

        Args:
            is_over: returns True if the run is over. Then no call is repeated.

        Raises SinkContractError, the error for a file that its source cannot read, and the errors of sinks.
        """
        return self._with_content(frame, is_over, lambda: self._stage(frame, batch_id, is_over))

    def keep_state_of(self, frame: DataFrame, batch_id: int, is_over: Callable[[], bool] = lambda: False) -> Prepared:
        """Compute the frame only to update the state of its query, and return a record without output.

        Malformed rows are counted, and staged in their quarantines.
        """

        def consume() -> Prepared:
            frame.write.format("noop").mode("overwrite").save()
            return Prepared(self._attempt, batch_id, (), {})

        return self._with_content(frame, is_over, consume)

    def _with_content(self, frame: DataFrame, is_over: Callable[[], bool], consume: Callable[[], Prepared]) -> Prepared:
        sources = self._sources
        if sources is None:
            return consume()
        sources.refuse_unfit(frame)
        try:
            prepared = consume()
        except Exception as error:
            unfit = None if is_over() else sources.unfit(frame, error)
            if unfit is None:
                raise
            raise unfit from None
        return self._with_malformed(prepared, sources.malformed(frame, self._quarantines), is_over)

    def _stage(self, frame: DataFrame, batch_id: int, is_over: Callable[[], bool]) -> Prepared:
        nonce = uuid.uuid4().hex[:12]
        files: tuple[PartitionFile, ...] = ()
        copy, rows = None, 0
        if self._partition is not None:
            copy = f"{self._partition.data}/{self._attempt}-{batch_id}-{nonce}"
            frame, count = counted(frame)
            files = self._write(frame, copy)
            rows = count() if files else 0
        elif len(self._main) != 1:
            copy = f"{self._scratch}/{self._attempt}-{batch_id}-{nonce}"
            self._write(frame, copy)
        source = frame if copy is None else self._read(copy, frame)
        is_repeatable = copy is not None or not self._is_stateful
        handles = {uid: self._staged(uid, source, batch_id, is_repeatable, is_over) for uid in self._main}
        if copy is not None and not files:  # no log entry will name a file in it
            self._storage.delete_tree(copy)
        return Prepared(self._attempt, batch_id, files, handles, rows)

    def _with_malformed(self, prepared: Prepared, malformed: MalformedRows, is_over: Callable[[], bool]) -> Prepared:
        handles = {
            uid: self._staged(uid, malformed.of(source), prepared.batch_id, True, is_over)
            for source, uid in self._quarantines.items()
            if malformed.counts.get(source)
        }
        return replace(prepared, malformed=malformed.counts, handles={**prepared.handles, **handles})

    def _staged(
        self, uid: str, source: DataFrame, batch_id: int, is_repeatable: bool, is_over: Callable[[], bool]
    ) -> Handle:
        sink, wait = self._sinks[uid], self._wait(uid, is_over)

        def stage() -> Handle:
            nonce = uuid.uuid4().hex[:12]
            request = StageRequest(str(self._attempt), batch_id, nonce, counted, over_partitions, wait.call)
            return checked_handle_of(uid, sink, sink.stage(source, request), request)

        return wait.call(stage) if is_repeatable else stage()

    def delete_leftovers(self, log: LogReader) -> None:
        """Delete unpublished files of earlier attempts, according to this attempt's log: :func:`.delete_leftovers`."""
        folders = [self._scratch, *(() if self._partition is None else (self._partition.data,))]
        delete_leftovers(self._storage, log, folders, self._sinks)

    def _read(self, path: str, frame: DataFrame) -> DataFrame:
        return read_files(self._spark, frame.schema, self._storage.spark_uri(path))

    def _write(self, frame: DataFrame, path: str) -> tuple[PartitionFile, ...]:
        is_kept = self._partition is not None and self._partition.persist
        write_files(frame, self._storage.spark_uri(path), is_kept=is_kept)
        if self._partition is None:
            return ()
        self._storage.sync(path)  # before the record of the batch names them
        inside = path[len(self._partition.root) + 1 :]
        return tuple(
            PartitionFile(f"{inside}/{name}", size)
            for name, size in self._storage.files(path)
            if not name.startswith("_") and self._has_rows(f"{path}/{name}", size)
        )

    def _has_rows(self, path: str, size: int) -> bool:
        """Return False for a Parquet file without rows, which would only make the consumer run an empty batch."""
        if size > _FOOTER_CHECK:
            return True
        try:
            from pyarrow import parquet
        except ImportError:  # pragma: no cover - pyarrow comes with every Spark that runs Python
            return True
        return bool(parquet.ParquetFile(BytesIO(self._storage.read(path))).metadata.num_rows)


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return (frame with a row counter, function that returns the number of rows after the frame was consumed)."""
    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get["rows"])


def delete_leftovers(
    storage: Storage, subtask_log: LogReader, folders: Collection[str], sinks: Mapping[str, BoundSink]
) -> None:
    """Delete unpublished files of earlier attempts.

    Only the attempt that owns the log may call this, after a check of the fence. It must have published all batches
    that earlier attempts had prepared and Spark had committed. This is not left to the next driver, because a run
    may last for months in which a subtask fails each hour. A file that cannot be deleted is logged and stays.

    Args:
        folders: the folders of data for the next vertex and of copies.

    Raises OvertakenError.
    """
    records = subtask_log.records()
    attempts = {str(attempt) for attempt in fenced(records)}
    batches = [record for _, record in records if isinstance(record, Batch)]
    recorded = {file.folder for batch in batches for file in batch.files}
    for folder in folders:
        with best_effort(f"what is left in {folder}"):
            names = [name for name in storage.list(folder) if name not in recorded and attempt_of(name) in attempts]
            for name in names:
                with best_effort(f"{folder}/{name}"):
                    storage.delete_tree(f"{folder}/{name}")
    handles = {str(handle["id"]) for batch in batches for handle in batch.handles.values()}
    for uid, sink in sinks.items():
        _delete_staged(uid, sink, attempts, handles)


def _delete_staged(uid: str, sink: BoundSink, attempts: Collection[str], handles: Collection[str]) -> None:
    """Delete output of ``attempts`` in a sink, except the published ``handles``.

    Other attempts use the sink meanwhile, so ``collect_garbage`` is not used.
    """
    try:
        for orphan in [*staged_orphans({uid: sink}, attempts, handles)]:
            with best_effort(f"batch {orphan.path}, staged in sink {uid},"):
                sink.delete_staged([orphan.path])
    except OvertakenError:
        raise
    except Exception as error:  # a sink may raise anything, and the subtask must not fail because of it
        log.warning("output that earlier attempts staged in sink %s stays for now: %s", uid, error)
