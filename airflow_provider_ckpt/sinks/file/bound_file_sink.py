"""A file sink bound to a job: it stages, releases and cleans up in its folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider_ckpt.sinks.errors import (
    InvalidSinkError,
    RowsRefusedError,
    StagedFilesMissingError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_writer import BLANK_LINE, FileWriter
from airflow_provider_ckpt.sinks.file.folder_columns import FolderColumns
from airflow_provider_ckpt.sinks.file.manifest_log import Manifest, ManifestLog, ReleasedFile
from airflow_provider_ckpt.sinks.file.occupancy import Mode, Occupancy
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.file_names import OWNERSHIP, format_of, is_data_file, sink_folder
from airflow_provider_ckpt.sinks.folder_names import named_folders
from airflow_provider_ckpt.sinks.parquet_footers import parquet_rows
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, SinkInput, StageRequest
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.sinks.spark_exceptions import has_text
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.storage.writable import is_gone, refuse_apart, refuse_unwritable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOKED_FOR = 100
"""At most this many files of the last release are checked. If none of them exists, the driver warns of a loss."""


class BoundFileSink(BoundSink):
    """A ``FileSink`` that is bound to one job.

    A release checks that every staged file is complete. A first release then appends the sink's turn to the folder's
    turn log. The release moves every file to the name in its handle, and appends one manifest entry. Finally it deletes
    the empty staged places, and the files that the entry replaces. A crash between two steps, or a second releaser,
    does no harm:

    1. Names are fixed when a batch is staged, and a repeated move moves nothing twice.
    2. The manifest entry is the release. It is created under the next number only if that number is free. Of two
       releasers one wins, and the other releaser reads the winner's entry and starts over.
    3. A handle records the number of manifest entries when it was staged. Only later entries can list the handle, so
       they show whether it was released. Missing files prove nothing, because readers may delete released files.
    4. A checkpoint without staged rows appends no entry, unless it is the first release and replaces other jobs' rows.
       So ``last_released`` may be below the journal's last release. A repeated release of such a checkpoint changes
       nothing, because existing entries list all its handles (3).
    5. The sink's turn lists the sinks whose rows it replaces, see :class:`~.occupancy.Occupancy`.
    """

    def __init__(self, writer: FileWriter, context: SinkContext, folders: FileFolders, mode: Mode) -> None:
        self._writer = writer
        self._context = context
        self._folders = folders
        self._storage = folders.target
        self._books = folders.books
        self._mode = mode
        self._log = ManifestLog(folders.books, context.job_id, context.uid)
        self._staged = StagedFiles(folders, context)
        self._name = SinkName(context.job_id, context.uid)
        self._occupancy = Occupancy(folders, self._name, mode)
        self._columns = FolderColumns(folders, self._name, writer, self._occupancy.visible_sinks)

    def __repr__(self) -> str:
        return f"BoundFileSink({self._context.uid!r}, {self._storage.uri!r})"

    def storages(self) -> list[Storage]:
        return [self._storage, self._books]

    def check_target(self) -> None:
        refuse_unwritable(self._storage)
        refuse_unwritable(self._books)
        refuse_apart(self._books, self._storage)
        if is_gone(self._storage) and self._occupancy.has_releases():
            raise TargetRefusedError(
                "Sink {sink} cannot write to {uri}: that folder was deleted, and {books} still lists what was "
                "released there. To start from scratch, delete {books}, too",
                sink=self._context.uid,
                uri=self._storage.uri,
                books=self._books.uri,
            )
        self._refuse_managed_folder()
        self._occupancy.refuse_foreign_content()
        if self._mode == "append":
            self._refuse_other_format()

    def _refuse_other_format(self) -> None:
        """Refuse a folder with data files in another format than the sink's, because readers expect one format."""
        own_format = self._writer.format
        for path, _ in self._storage.files(""):
            *folders, _ = path.split("/")
            is_read = is_data_file(path) and all("=" in folder for folder in folders)  # readers skip other folders
            if is_read and format_of(path) not in (None, own_format):
                reason = (
                    f"is not that of {path!r} in {self._storage.uri}, and a folder is read in one format; give "
                    f"another folder, or write {format_of(path)}"
                )
                raise InvalidSinkError(sink="FileSink", setting="format", value=own_format, reason=reason)

    def check_rows(self, given: SinkInput) -> None:
        self._columns.check(given, is_first=self._mode == "append" and not self._log.length())

    def _refuse_managed_folder(self) -> None:
        if self._storage.list("_spark_metadata"):
            reason = (
                "is a folder of Spark's own streaming file sink ('_spark_metadata'), in which Spark reads no "
                "other files; use another folder"
            )
            raise InvalidSinkError(sink="FileSink", setting="path", value=self._storage.uri, reason=reason)
        if self._storage.list("_delta_log"):
            reason = (
                "is a Delta table ('_delta_log'), whose readers see no other files; use DeltaSink or another folder"
            )
            raise InvalidSinkError(sink="FileSink", setting="path", value=self._storage.uri, reason=reason)

    def prepare(self) -> None:
        self._books.probe()
        self._folders.parent.probe_move(self._folders.places.books, self._folders.places.target)
        self._refuse_managed_folder()
        if not self._log.catch_up():
            self._occupancy.register_start()
        else:
            self._occupancy.sweep()
        self._occupancy.refuse_superseded()
        self._columns.record()

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        entries = self._log.length()
        place = self._staged.place(request.id)
        counted, rows_written = (frame, None) if self._writer.shows_row_count else request.counted(frame)
        with named_folders(self._writer.partition_by, self._context, request.id):
            self._write(counted, request, self._books.spark_uri(place))
        files = self._staged.written(place)
        rows = self._staged.keep_rows(
            request.id,
            len(files),
            self._storage.uri,
            found=parquet_rows(self._books.child(place), files) if rows_written is None else None,
            counted=None if rows_written is None else rows_written(),
        )
        return self._staged.handle(request, rows, entries, files if rows else [])

    def _write(self, frame: DataFrame, request: StageRequest, uri: str) -> None:
        blank = self._writer.blank_lines(frame)
        try:
            self._writer.write(frame if blank is None else blank.with_check(frame), uri)
        except Exception as error:
            if blank is not None and has_text(error, BLANK_LINE):
                columns = ", ".join(map(repr, blank.columns))
                raise RowsRefusedError(
                    "sink {sink}: a row of batch {handle} holds nothing (null, or a blank text) in {columns}, so "
                    "that its line of CSV is blank, and Spark leaves such a line out: the row would be lost. "
                    "Nothing of the batch was staged: leave such rows out, or replace the null by a text "
                    "(coalesce), and resume with --resume-failed; a new job may set options={{'nullValue': …}}",
                    sink=self._context.uid,
                    handle=request.id,
                    columns=columns,
                ) from error
            if refused_options := self._writer.refused_options(frame, uri):
                shown_options = ", ".join(map(repr, refused_options))
                raise RowsRefusedError(
                    "sink {sink!r} of job {job!r}: Spark's writer of {format} refuses the values of its options "
                    "{options}, and fails without any rows, too. Nothing of the batch was staged. Correct them and "
                    "resume with --resume-failed; an option that decides how files are read (header, sep, …) cannot "
                    "change once a job has begun: run the job under another id",
                    sink=self._context.uid,
                    job=self._context.job_id,
                    format=self._writer.format,
                    options=shown_options,
                ) from error
            raise

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        staged = [handle for handle in map(self._staged.read_handle, handles) if handle["files"]]
        while True:
            newest = self._log.newest()
            waiting = self._unreleased(staged)
            if newest is not None and checkpoint <= newest.checkpoint:
                waiting_ids = [handle["id"] for handle in waiting]
                self._staged.refuse_foreign(self._storage.uri, newest.checkpoint, waiting_ids, checkpoint)
                return self._finish(newest, staged, checkpoint)
            entries_read = self._log.length()
            try:
                manifest = self._prepare_manifest(waiting, checkpoint, is_first=newest is None)
            except StagedFilesMissingError:
                # Another releaser may have finished since, and a reader may have consumed and deleted the files.
                if self._log.catch_up() > entries_read:
                    continue
                raise
            if manifest is None:
                return _counts(None)
            if self._log.append(manifest):
                return self._finish(manifest, waiting, checkpoint)
            # Another releaser was first, and its entry decides what remains to release (R9).

    def _prepare_manifest(self, waiting: Sequence[Handle], checkpoint: int, *, is_first: bool) -> Manifest | None:
        """Verify and move the staged files. Return the manifest to append; None if it would add and replace no rows."""
        if waiting:
            self._occupancy.refuse_superseded()
        self._staged.verify(waiting, checkpoint)
        turn = self._occupancy.take_turn(bool(waiting)) if is_first else None
        supersedes = () if turn is None else turn.supersedes
        if not waiting and not supersedes:
            return None
        self._staged.move(waiting, checkpoint)
        self._occupancy.refuse_superseded()
        return Manifest(
            job_id=self._context.job_id,
            sink=self._context.uid,
            checkpoint=checkpoint,
            rows=sum(handle["rows"] for handle in waiting),
            batches=tuple(handle["id"] for handle in waiting),
            files=tuple(ReleasedFile(file["target"], file["size"]) for handle in waiting for file in handle["files"]),
            supersedes=supersedes,
        )

    def _finish(self, newest: Manifest, staged: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        self._occupancy.sweep()
        if checkpoint < newest.checkpoint:
            return _counts(None)
        for handle in staged:
            if handle["id"] in newest.batches:  # all its files were moved before the entry was made
                self._staged.delete(handle["id"])
        return _counts(newest)

    def _unreleased(self, staged: Sequence[Handle]) -> list[Handle]:
        if not staged:
            return []
        for handle in staged:
            self._log.refuse_shorter(handle["since_manifest"], f"batch {handle['id']}")
        released = self._log.batches_since(min(handle["since_manifest"] for handle in staged))
        waiting = {handle["id"]: handle for handle in staged if handle["id"] not in released}
        return list(waiting.values())

    def last_released(self) -> int:
        newest = self._log.newest()
        return 0 if newest is None or is_gone(self._storage) else newest.checkpoint

    def loss_evidence(self) -> str | None:
        newest = self._log.newest()
        if newest is None or not newest.files:
            return None
        if any(self._storage.exists(file.path) for file in newest.files[:_LOOKED_FOR]):
            return None
        return f"no file of its last release, checkpoint {newest.checkpoint}, is in its folder"

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        if self._log.catch_up():
            self._occupancy.sweep(force=True)
        self._books.collect_temporary("", LEFT_BEHIND, deep=False)  # leftovers of storage probes
        for folder in (sink_folder(self._context.job_id, self._context.uid), OWNERSHIP):
            self._books.collect_temporary(folder, LEFT_BEHIND)
        return self._staged.collect_garbage(live_handles, live_attempts)

    def staged(self) -> dict[str, list[int]]:
        return self._staged.staged()

    def delete_staged(self, ids: Collection[str]) -> None:
        self._staged.delete_all(ids)


def _counts(manifest: Manifest | None) -> dict[str, int]:
    if manifest is None:
        return {"files": 0, "rows": 0, "bytes": 0}
    return {"files": len(manifest.files), "rows": manifest.rows, "bytes": manifest.size}
