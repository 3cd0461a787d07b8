"""A file sink in one job: stages, releases and cleans up in its folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import (
    ForeignReleaseError,
    InvalidSinkError,
    ObjectNotFoundError,
    StagedElsewhereError,
    StagedFilesMissingError,
    StagedRowCountError,
    UnknownHandleError,
)
from airflow_provider_ckpt.sinks.file_names import is_data_file, released_names, staging_folder
from airflow_provider_ckpt.sinks.file_writer import FileWriter
from airflow_provider_ckpt.sinks.manifest_log import Manifest, ManifestLog, ReleasedFile
from airflow_provider_ckpt.sinks.parquet_footers import parquet_rows
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, StageRequest, attempt_of
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HANDLE_FORMAT = "airflow-provider-ckpt/file-handle"


class BoundFileSink(BoundSink):
    """Release is: move every staged file to the name in its handle, then append one manifest entry, then
    delete the empty staged places. Why a crash or a second releaser between any two steps does no harm:

    1. Names are fixed when a batch is staged and moving is idempotent, so doing it again moves nothing twice.
    2. The manifest entry is the release. It is made by create-if-absent of the next number, so of two
       releasers one wins, and the other reads the winner's entry and starts over.
    3. A handle says how many entries there were when it was staged. It can be listed only in a later one, so
       the few entries from there on tell whether it was released already. Nothing else is looked at: files
       that a reader of the manifests has consumed and deleted are not missed.
    4. A checkpoint with nothing staged appends nothing, and ``last_released`` stays behind. A late release
       then finds a lower number than it might, but all its handles in the entries since (3): still a no-op.
    """

    def __init__(self, writer: FileWriter, context: SinkContext, storage: Storage) -> None:
        self._writer = writer
        self._context = context
        self._storage = storage
        self._log = ManifestLog(storage, context.job_id, context.uid)
        self._staging = staging_folder(context.job_id, context.uid)

    def __repr__(self) -> str:
        return f"BoundFileSink({self._context.uid!r}, {self._storage.uri!r})"

    def prepare(self) -> None:
        self._storage.probe()
        if self._storage.list("_spark_metadata"):
            reason = (
                "is a folder of Spark's own streaming file sink ('_spark_metadata'), in which Spark reads no "
                "other files; use another folder"
            )
            raise InvalidSinkError(sink="FileSink", setting="path", value=self._storage.uri, reason=reason)
        self._log.catch_up()

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        since = self._log.length()
        place = f"{self._staging}/{request.id}"
        counted, rows_written = (frame, None) if self._writer.shows_row_count else request.counted(frame)
        self._writer.write(counted, self._storage.spark_uri(place))
        files = self._staged_files(place)
        rows = parquet_rows(self._storage.child(place), files) if rows_written is None else rows_written()
        if (rows == 0 and len(files) > 1) or (not files and (rows > 0 or rows_written is None)):
            raise StagedRowCountError(handle=request.id, uri=self._storage.uri, rows=rows, files=len(files))
        if rows == 0:  # Spark writes one file (its header, its schema) for an empty frame
            self._storage.delete_tree(place)
            files = []
        return self._handle(request, rows, since, files)

    def _staged_files(self, place: str) -> list[tuple[str, int]]:
        found = self._storage.child(place).files("")
        return [(path, size) for path, size in found if size > 0 and is_data_file(path)]

    def _handle(self, request: StageRequest, rows: int, since: int, files: list[tuple[str, int]]) -> Handle:
        targets = released_names(
            (path for path, _ in files),
            job_id=self._context.job_id,
            uid=self._context.uid,
            batch_id=request.batch_id,
            nonce=request.nonce,
        )
        return {
            "format": HANDLE_FORMAT,
            "version": 1,
            "id": request.id,
            "uri": self._storage.uri,
            "since_manifest": since,
            "rows": rows,
            "files": [
                {"path": path, "size": size, "target": target}
                for (path, size), target in zip(files, targets, strict=True)
            ],
        }

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        staged = [handle for handle in map(self._checked, handles) if handle["files"]]
        while True:
            newest = self._log.catch_up()
            waiting = self._unreleased(staged)
            if newest is not None and checkpoint <= newest.checkpoint:
                self._refuse_foreign(newest, waiting, checkpoint)
                return self._finish(newest, staged, checkpoint)
            if not waiting:
                return _counts(None)
            missing = self._move(waiting)
            if missing:
                # Another releaser may have finished meanwhile, and a reader consumed and deleted the files.
                seen = self._log.length()
                self._log.catch_up()
                if self._log.length() > seen:
                    continue
                raise self._missing(missing, checkpoint)
            manifest = self._manifest(waiting, checkpoint)
            if self._log.append(manifest):
                return self._finish(manifest, waiting, checkpoint)
            # R9: another releaser was first, and its entry decides what is left to do.

    def _finish(self, newest: Manifest, staged: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        if checkpoint < newest.checkpoint:
            return _counts(None)
        for handle in staged:
            if handle["id"] in newest.batches:  # all its files were moved before the entry was made
                self._storage.delete_tree(self._place(handle))
        return _counts(newest)

    def _refuse_foreign(self, newest: Manifest, waiting: Sequence[Handle], checkpoint: int) -> None:
        if waiting:
            raise ForeignReleaseError(
                sink=self._context.uid,
                uri=self._storage.uri,
                newest=newest.checkpoint,
                handle=waiting[0]["id"],
                checkpoint=checkpoint,
            )

    def _missing(self, paths: Sequence[str], checkpoint: int) -> StagedFilesMissingError:
        return StagedFilesMissingError(
            checkpoint=checkpoint,
            sink=self._context.uid,
            count=len(paths),
            path=paths[0],
            uri=self._storage.uri,
        )

    def _checked(self, handle: Handle) -> Handle:
        if handle.get("format") != HANDLE_FORMAT or handle.get("version") != 1:
            raise UnknownHandleError(format=handle.get("format"), version=handle.get("version"), known=HANDLE_FORMAT)
        if handle["uri"] != self._storage.uri:
            raise StagedElsewhereError(
                sink=self._context.uid,
                uri=self._storage.uri,
                handle=handle["id"],
                staged_for=handle["uri"],
            )
        return handle

    def _unreleased(self, staged: Sequence[Handle]) -> list[Handle]:
        if not staged:
            return []
        released = self._log.batches_since(min(handle["since_manifest"] for handle in staged))
        waiting = {handle["id"]: handle for handle in staged if handle["id"] not in released}
        return list(waiting.values())

    def _move(self, waiting: Sequence[Handle]) -> list[str]:
        """Move all staged files to their final names; return those that are in neither place."""
        missing = []
        for handle in waiting:
            for file in handle["files"]:
                staged = f"{self._place(handle)}/{file['path']}"
                try:
                    self._storage.move(staged, file["target"])
                except ObjectNotFoundError:
                    missing.append(staged)
        return missing

    def _manifest(self, released: Sequence[Handle], checkpoint: int) -> Manifest:
        return Manifest(
            job_id=self._context.job_id,
            sink=self._context.uid,
            checkpoint=checkpoint,
            rows=sum(handle["rows"] for handle in released),
            batches=tuple(handle["id"] for handle in released),
            files=tuple(ReleasedFile(file["target"], file["size"]) for handle in released for file in handle["files"]),
        )

    def last_released(self) -> int:
        newest = self._log.catch_up()
        return 0 if newest is None else newest.checkpoint

    def abort(self, handles: Sequence[Handle]) -> None:
        for handle in map(self._checked, handles):
            self._storage.delete_tree(self._place(handle))

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        removed = []
        for name in self._storage.list(self._staging):
            attempt = attempt_of(name)
            if attempt is not None and attempt not in live_attempts and name not in live_handles:
                self._storage.delete_tree(f"{self._staging}/{name}")
                removed.append(name)
        return removed

    def _place(self, handle: Handle) -> str:
        return f"{self._staging}/{handle['id']}"


def _counts(manifest: Manifest | None) -> dict[str, int]:
    if manifest is None:
        return {"files": 0, "rows": 0, "bytes": 0}
    return {"files": len(manifest.files), "rows": manifest.rows, "bytes": manifest.size}
