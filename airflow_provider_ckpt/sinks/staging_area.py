"""The folder of a sink's files until their release."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn

from airflow_provider_ckpt.concurrency import map_parallel
from airflow_provider_ckpt.sinks.errors import (
    ForeignReleaseError,
    StagedDataDamagedError,
    StagedFilesMissingError,
    StagedRowCountError,
)
from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING, is_data_file, staging_folder
from airflow_provider_ckpt.sinks.garbage import delete_garbage
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.paths import join
from airflow_provider_ckpt.storage.storage import Storage


class StagingArea:
    """The staged files of one sink of one job. Each ``stage`` call has a folder (place), named by the handle's id."""

    def __init__(self, storage: Storage, context: SinkContext, bookkeeping: str = BOOKKEEPING) -> None:
        """Open the folder. ``bookkeeping``: path of the bookkeeping folder in ``storage``."""
        self._storage = storage
        self._context = context
        self.folder = join(bookkeeping, staging_folder(context.job_id, context.uid))

    def place(self, handle_id: str) -> str:
        return f"{self.folder}/{handle_id}"

    def written(self, place: str) -> list[tuple[str, int]]:
        """Return (path in the place, bytes) of each data file that Spark wrote to a place. Empty files are omitted."""
        files = self._storage.child(place).files("")
        return [(path, size) for path, size in files if size > 0 and self._is_data(path)]

    def keep_rows(
        self, handle_id: str, files: int, uri: str, *, found: int | None = None, counted: int | None = None
    ) -> int:
        """Keep a written place, or delete it if there are no rows. Return the number of rows.

        Args:
            files: number of data files.
            uri: target in messages.
            found: number of rows in the files; None if the files were not read.
            counted: number of rows that were counted while they were written; None if they were not counted.

        Raises StagedRowCountError if the numbers contradict each other. For an empty frame Spark writes no file, or one
        file with the header or the schema.
        """
        rows = (found or 0) if counted is None else counted
        lacks_files = not files and (rows > 0 or counted is None)
        if lacks_files or (rows == 0 and files > 1) or found not in (None, rows):
            raise StagedRowCountError(handle=handle_id, uri=uri, rows=rows, files=files)
        if rows == 0:
            self.delete(handle_id)
        else:
            self._storage.sync(self.place(handle_id))  # a handle survives a power cut, so its files must survive it
        return rows

    def refuse_foreign(self, uri: str, newest: int, waiting: Sequence[str], checkpoint: int) -> None:
        """Raise ForeignReleaseError if there are unreleased handles (``waiting``) of ``checkpoint``.

        The target has released ``newest``, which is not below ``checkpoint``. So another job released it.
        """
        for handle_id in waiting:
            raise ForeignReleaseError(
                sink=self._context.uid, uri=uri, newest=newest, handle=handle_id, checkpoint=checkpoint
            )

    def delete(self, handle_id: str) -> None:
        self._storage.delete_tree(self.place(handle_id))

    def delete_all(self, ids: Collection[str]) -> None:
        for handle_id in sorted(ids):
            self.delete(handle_id)

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete each place whose handle is not live and whose attempt is not live. Return the handles' ids.

        Raises GarbageLeftError.
        """
        places = {name: self._storage.full_uri(self.place(name)) for name in self._storage.list(self.folder)}
        return delete_garbage(self._context, places, live_handles, live_attempts, self.delete)

    def staged(self) -> dict[str, list[int]]:
        """Return handle id -> bytes of each of its files."""
        sizes: dict[str, list[int]] = {}
        for path, size in self._storage.files(self.folder):
            sizes.setdefault(path.partition("/")[0], []).append(size)
        return sizes

    def _is_data(self, path: str) -> bool:
        return is_data_file(path)

    def _size(self, path: str) -> int | None:
        try:
            return self._storage.size(path)
        except ObjectNotFoundError:
            return None

    def _existing_sizes(self, paths: Sequence[str]) -> dict[str, int]:
        sizes = map_parallel(self._size, paths, self._storage.requests_at_once)
        return {path: size for path, size in zip(paths, sizes, strict=True) if size is not None}

    def _refuse_changed(
        self, path: str, expected: int, found: int, checkpoint: int, storage: Storage | None = None
    ) -> NoReturn:
        raise StagedDataDamagedError(
            "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {path!r} in {uri} was staged "
            "with {expected} bytes and has {found}. Nothing of the checkpoint was released. Bring the file back and "
            "resume with --resume-failed, or run the job under another id, from its input.",
            job=self._context.job_id,
            sink=self._context.uid,
            checkpoint=checkpoint,
            path=path,
            uri=(storage or self._storage).uri,
            expected=expected,
            found=found,
        )

    def _refuse_missing(self, missing: Sequence[str], checkpoint: int) -> None:
        if missing:
            raise self._files_missing(missing, checkpoint)

    def _files_missing(self, missing: Sequence[str], checkpoint: int) -> StagedFilesMissingError:
        return StagedFilesMissingError(
            job=self._context.job_id,
            checkpoint=checkpoint,
            sink=self._context.uid,
            count=len(missing),
            path=missing[0],
            uri=self._storage.uri,
        )
