"""A lake sink bound to a job: it stages, releases and cleans up in a Delta or Iceberg table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.sinks.file.file_writer import FileWriter
from airflow_provider_ckpt.sinks.file_names import released_names
from airflow_provider_ckpt.sinks.folder_names import named_folders
from airflow_provider_ckpt.sinks.lake.columns import Column, columns_of, input_columns, misfit
from airflow_provider_ckpt.sinks.lake.footers import footers
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile, LakeHandle
from airflow_provider_ckpt.sinks.lake.lake_settings import LakeSettings
from airflow_provider_ckpt.sinks.lake.table import LakeTable, Snapshot, table_refused
from airflow_provider_ckpt.sinks.lake.table_commits import TRIES, Position, TableCommits, table_gone
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, SinkInput, StageRequest
from airflow_provider_ckpt.sinks.write_settings import LOSSLESS
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TABLE_FILES = {**LOSSLESS, "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS",)}
"""Spark settings for staged files. Tables do not accept INT96, which is Spark's default."""
_COUNTED_NULLS = {"parquet.statistics.truncate.length": "64"}
"""Option with which Spark's writer records statistics of long texts, cut to 64 bytes.

For texts of some KB Spark otherwise omits all statistics, also the number of nulls. Only upserts use the option: their
staged files never enter the table.
"""


class BoundLakeSink(BoundSink):
    """A ``DeltaSink`` or ``IcebergSink`` that is bound to one job.

    A release checks that the table accepts the rows, and that every staged file is complete. It appends one intent to
    the sink's log. Then it commits all intents that the table lacks (:class:`~.table_commits.TableCommits`). A crash
    between two steps, or a second releaser, does no harm:

    1. The intent states which batches are released, and how. It is created under the next number only if that number
       is free. Of two releasers one wins. The other releaser then commits the winner's intent, if the table lacks it.
    2. A commit records how many intents are in the table. It succeeds only on top of the table version from which that
       number was read. So each intent enters the table once.
    3. A handle records the number of intents when it was staged. Only a later intent can contain the handle.
    4. Staged files are deleted only after the commit is in the table.
    """

    def __init__(self, table: LakeTable, settings: LakeSettings, context: SinkContext) -> None:
        self._table = table
        self._settings = settings
        self._context = context
        self._input_columns: tuple[Column, ...] | None = None
        self._roll_forward: TableCommits | None = None
        self._has_begun = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._context.uid!r}, {self._table.uri!r})"

    # ---- before the first batch

    def check_target(self) -> None:
        roll_forward = self._find_roll_forward()
        if roll_forward is None:
            return
        position = roll_forward.read_position()
        if position is not None and position.pending is not None:
            problem = (
                f"a job of this id has begun a release there (checkpoint {position.pending.checkpoint}) that never got "
                "into the table. Give the job another id"
            )
            raise table_refused(self._context, self._table.uri, problem)

    def storages(self) -> list[Storage]:
        storage = self._table.storage()
        return [] if storage is None else [storage]

    def check_rows(self, given: SinkInput) -> None:
        self._input_columns = self._table.as_stored(input_columns(given))
        snapshot = self._table.load()
        if snapshot is not None:
            self._refuse(snapshot, self._input_columns)

    def prepare(self) -> None:
        if self._input_columns is not None:
            self._ready_snapshot(self._input_columns)
        if (roll_forward := self._find_roll_forward()) is not None:
            roll_forward.storage.probe()
            self._begin(roll_forward, self._table.load())

    def _ready_snapshot(self, columns: Sequence[Column]) -> Snapshot:
        """Return the current version of the table. Create the table if it never existed.

        Raises TargetRefusedError if the table does not accept the rows, ReleaseRecordLostError if it was deleted.
        """
        snapshot = self._table.load()
        if snapshot is None:
            self._refuse_gone()
            self._table.create(columns)
            snapshot = self._table.load()
        if snapshot is None:
            raise table_gone(self._context, self._table.uri, "this very process, which has made it,")
        self._refuse(snapshot, columns)
        return snapshot

    def _refuse_gone(self) -> None:
        roll_forward = self._find_roll_forward()
        if roll_forward is not None and roll_forward.log.catch_up():
            raise table_gone(self._context, self._table.uri, "the log of this sink's releases")

    def _refuse(self, snapshot: Snapshot, columns: Sequence[Column]) -> None:
        problem = self._table.refusal(snapshot, self._settings.first_change) or misfit(columns, snapshot.columns)
        problem = problem or self._settings.partition_misfit(snapshot.partition_by)
        if problem is not None:
            raise table_refused(self._context, self._table.uri, problem)

    def _begin(self, roll_forward: TableCommits, snapshot: Snapshot | None) -> None:
        if self._settings.mode == "overwrite" and snapshot is not None and not self._has_begun:
            roll_forward.start.create(snapshot.overwrites)
            self._has_begun = True

    # ---- a batch

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        columns = self._table.as_stored(columns_of(frame.schema.json()))
        snapshot = self._ready_snapshot(columns)
        roll_forward = self._existing_roll_forward()
        self._begin(roll_forward, snapshot)
        place = roll_forward.files.place(request.id)
        shaped, folders = self._table.shaped(frame, snapshot)
        writer = FileWriter("parquet", folders, self._writer_options, _TABLE_FILES)
        counted, count_rows = (shaped, None) if writer.shows_row_count else request.counted(shaped)
        with named_folders(folders, self._context, request.id):
            writer.write(counted, roll_forward.storage.spark_uri(place))
        files = self._staged_files(roll_forward, request, columns, snapshot)
        rows = roll_forward.files.keep_rows(
            request.id,
            len(files),
            self._table.uri,
            found=sum(file.rows for file in files),
            counted=None if count_rows is None else count_rows(),
        )
        return self._handle(roll_forward, request, columns, snapshot, files if rows else [])

    @property
    def _writer_options(self) -> Mapping[str, Any]:
        options = self._settings.options
        return {**_COUNTED_NULLS, **options} if self._settings.mode == "upsert" else options

    def _staged_files(
        self, roll_forward: TableCommits, request: StageRequest, columns: Sequence[Column], snapshot: Snapshot
    ) -> list[LakeFile]:
        place = roll_forward.files.place(request.id)
        written = roll_forward.files.written(place)
        targets = released_names(
            (path for path, _ in written),
            job_id=self._context.job_id,
            uid=self._context.uid,
            batch_id=request.batch_id,
            nonce=request.nonce,
        )
        files = []
        for (path, size), target, footer in zip(
            written, targets, footers(roll_forward.storage.child(place), written), strict=True
        ):
            whole = f"{place}/{path}"
            final_path = None if self._settings.mode == "upsert" else self._table.final_path(target, snapshot)
            if footer.rows:
                footer.refuse_nulls(self._settings.key)
            partition = self._table.partition(path, footer, snapshot) if footer.rows else {}
            stats = footer.whole_numbers(columns)
            files.append(LakeFile(whole, size, footer.rows, final_path or whole, partition, stats))
        return files

    def _handle(
        self,
        roll_forward: TableCommits,
        request: StageRequest,
        columns: tuple[Column, ...],
        snapshot: Snapshot,
        files: Sequence[LakeFile],
    ) -> Handle:
        return LakeHandle(
            id=request.id,
            uri=self._table.uri,
            table=snapshot.id,
            intents=roll_forward.log.catch_up(),
            applied=snapshot.applied,
            rows=sum(file.rows for file in files),
            columns=self._table.identified(columns, snapshot),
            partition_by=snapshot.partition_by,
            files=tuple(files),
        ).to_json()

    # ---- release

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        read = [LakeHandle.read(handle, self._context, self._table.uri) for handle in handles]
        staged = [handle for handle in read if handle.files]
        roll_forward = self._find_roll_forward()
        if roll_forward is None:
            if read:
                raise table_gone(self._context, self._table.uri, f"batch {read[0].id}")
            return _counts(None)
        for _ in range(TRIES):
            position = roll_forward.catch_up(read)
            if position is None:
                return _counts(None)
            waiting = _unreleased(roll_forward, staged, position)
            newest = position.newest
            if newest is not None and checkpoint <= newest.checkpoint:
                waiting_ids = [handle.id for handle in waiting]
                roll_forward.files.refuse_foreign(self._table.uri, newest.checkpoint, waiting_ids, checkpoint)
                return self._finish(roll_forward, newest, staged, checkpoint)
            intent = self._intent(roll_forward, position, waiting, checkpoint)
            if intent is None:
                return _counts(None)
            if roll_forward.log.append_as(position.length, intent):
                roll_forward.commit(position, intent)
            # if another releaser appended or committed first, the next catch_up shows it (R9)
        raise roll_forward.busy("other releases of the same sink")

    def _intent(
        self, roll_forward: TableCommits, position: Position, waiting: Sequence[LakeHandle], checkpoint: int
    ) -> Intent | None:
        """Return the checked intent for this release; None if the release would not change the table."""
        change: Change = self._settings.first_change if position.newest is None else self._settings.later_change
        overwrites = roll_forward.overwrites_before(position, self._settings.mode, has_rows=bool(waiting))
        if overwrites is None or not (waiting or change == "replace"):
            return None
        columns = _columns(waiting) if waiting else position.snapshot.columns
        intent = Intent(
            job=self._context.job_id,
            sink=self._context.uid,
            checkpoint=checkpoint,
            table=position.snapshot.id,
            change=change,
            overwrites=overwrites,
            rows=sum(handle.rows for handle in waiting),
            batches=tuple(handle.id for handle in waiting),
            columns=columns,
            partition_by=position.snapshot.partition_by,
            key=tuple(self._settings.key) if change == "upsert" else (),
            files=tuple(file for handle in waiting for file in handle.files),
        )
        for handle in waiting:
            roll_forward.check(position.snapshot, intent, handle.columns, handle.partition_by)
        roll_forward.files.verify_staged(intent.files, checkpoint)
        return intent

    def _finish(
        self, roll_forward: TableCommits, newest: Intent, staged: Sequence[LakeHandle], checkpoint: int
    ) -> dict[str, int]:
        """Delete the files of released batches. Return the release's counts; zeros if ``newest`` is a later release."""
        for handle in staged:
            roll_forward.files.delete(handle.id)
        return _counts(newest if checkpoint == newest.checkpoint else None)

    def last_released(self) -> int:
        roll_forward = self._find_roll_forward()
        position = None if roll_forward is None else roll_forward.read_position()
        return 0 if position is None else position.released

    # ---- garbage

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        roll_forward = self._find_roll_forward()
        if roll_forward is None:
            return []
        roll_forward.collect_temporary(LEFT_BEHIND)
        return roll_forward.files.collect_garbage(live_handles, live_attempts)

    def staged(self) -> dict[str, list[int]]:
        roll_forward = self._find_roll_forward()
        return {} if roll_forward is None else roll_forward.files.staged()

    def delete_staged(self, ids: Collection[str]) -> None:
        roll_forward = self._find_roll_forward()
        if roll_forward is not None:
            roll_forward.files.delete_all(ids)

    # ---- the table's folder

    def _find_roll_forward(self) -> TableCommits | None:
        """Return the :class:`TableCommits` of the table; None if the table does not exist."""
        if self._roll_forward is None and (storage := self._table.storage()) is not None:
            self._roll_forward = TableCommits(self._table, storage, self._context)
        return self._roll_forward

    def _existing_roll_forward(self) -> TableCommits:
        roll_forward = self._find_roll_forward()
        if roll_forward is None:
            raise table_gone(self._context, self._table.uri, "this very process")
        return roll_forward


def _unreleased(roll_forward: TableCommits, staged: Sequence[LakeHandle], position: Position) -> list[LakeHandle]:
    if not staged:
        return []
    released = roll_forward.log.batches(min(handle.intents for handle in staged), position.length)
    waiting = {handle.id: handle for handle in staged if handle.id not in released}
    return list(waiting.values())


def _columns(waiting: Sequence[LakeHandle]) -> tuple[Column, ...]:
    """Return the columns of the newest batch, without field ids if the columns of another batch differ."""
    newest = waiting[-1].columns
    if all(handle.columns == newest for handle in waiting):
        return newest
    return tuple(replace(column, field_id=None) for column in newest)


def _counts(intent: Intent | None) -> dict[str, int]:
    if intent is None:
        return {"files": 0, "rows": 0, "bytes": 0}
    return {"files": len(intent.files), "rows": intent.rows, "bytes": intent.size}
