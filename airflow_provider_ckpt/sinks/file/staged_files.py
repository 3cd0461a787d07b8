"""The staged files of a file sink: their handles, the check that they are unchanged, and their move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import (
    StagedElsewhereError,
)
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file_names import released_names
from airflow_provider_ckpt.sinks.handles import reading_handle
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.sinks.staging_area import StagingArea
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError

HANDLE_FORMAT = "airflow-provider-ckpt/file-handle"


@dataclass(frozen=True)
class _StagedFile:
    path: str
    size: Count
    target: str


_FIELDS = {
    "id": reader(str),
    "uri": reader(str),
    "since_manifest": reader(Count),
    "rows": reader(Count),
    "files": reader(list[_StagedFile]),
}


class StagedFiles(StagingArea):
    """The staged files of one sink, which its handles list."""

    def __init__(self, folders: FileFolders, context: SinkContext) -> None:
        super().__init__(folders.books, context, bookkeeping="")
        self._folders = folders

    def handle(self, request: StageRequest, rows: int, entries: int, files: Sequence[tuple[str, int]]) -> Handle:
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
            "uri": self._folders.target.uri,
            "since_manifest": entries,
            "rows": rows,
            "files": [
                {"path": path, "size": size, "target": target}
                for (path, size), target in zip(files, targets, strict=True)
            ],
        }

    def read_handle(self, handle: Handle) -> Handle:
        """Return the handle if it is complete and belongs to this target.

        Raises UnknownHandleError, DamagedHandleError, StagedElsewhereError.
        """
        with reading_handle(handle, HANDLE_FORMAT, self._context):
            for name, read in _FIELDS.items():
                read_field(handle, name, read)
        if handle["uri"] != self._folders.target.uri:
            raise StagedElsewhereError(
                sink=self._context.uid,
                uri=self._folders.target.uri,
                handle=handle["id"],
                staged_for=handle["uri"],
            )
        return handle

    def verify(self, waiting: Sequence[Handle], checkpoint: int) -> None:
        """Check that every file has its recorded size, in its staged place or under its final name.

        Makes one listing for each place, and one request for each file that was moved before.

        Raises StagedFilesMissingError, StagedDataDamagedError.
        """
        missing = []
        for handle in waiting:
            place = self.place(handle["id"])
            sizes = dict(self._storage.child(place).files(""))
            for file in handle["files"]:
                path, size, storage = f"{place}/{file['path']}", sizes.get(file["path"]), self._folders.books
                if size is None:
                    path, size, storage = file["target"], self._released_size(file["target"]), self._folders.target
                if size is None:
                    missing.append(f"{place}/{file['path']}")
                elif size != file["size"]:
                    self._refuse_changed(path, file["size"], size, checkpoint, storage)
        self._refuse_missing(missing, checkpoint)

    def move(self, waiting: Sequence[Handle], checkpoint: int) -> None:
        """Move all files to their final names. A repeated call moves nothing.

        Raises StagedFilesMissingError.
        """
        books, target = self._folders.places.books, self._folders.places.target
        moves = [
            (f"{books}/{self.place(handle['id'])}/{file['path']}", f"{target}/{file['target']}")
            for handle in waiting
            for file in handle["files"]
        ]
        missing = self._folders.parent.move_all(moves)
        self._refuse_missing([path.removeprefix(f"{books}/") for path in sorted(missing)], checkpoint)

    def _released_size(self, path: str) -> int | None:
        try:
            return self._folders.target.size(path)
        except ObjectNotFoundError:
            return None
