"""The folder of a sink's files until their release, and the refusal of files that have changed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from airflow_provider_ckpt.concurrency import map_parallel
from airflow_provider_ckpt.sinks.errors import StagedDataDamagedError, StagedFilesMissingError
from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING, is_data_file, staging_folder
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
        raise file_changed(self._context, checkpoint, path, (storage or self._storage).uri, expected, found)

    def _refuse_missing(self, missing: Sequence[str], checkpoint: int) -> None:
        if missing:
            raise StagedFilesMissingError(
                job=self._context.job_id,
                checkpoint=checkpoint,
                sink=self._context.uid,
                count=len(missing),
                path=missing[0],
                uri=self._storage.uri,
            )


def file_changed(
    context: SinkContext, checkpoint: int, path: str, uri: str, expected: int, found: int
) -> StagedDataDamagedError:
    """Return the error for a staged file whose size has changed from ``expected`` to ``found`` bytes."""
    return StagedDataDamagedError(
        "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released: {path!r} in {uri} was staged with "
        "{expected} bytes and has {found}. Nothing of the checkpoint was released. Bring the file back and resume with "
        "--resume-failed, or run the job under another id, from its input.",
        job=context.job_id,
        sink=context.uid,
        checkpoint=checkpoint,
        path=path,
        uri=uri,
        expected=expected,
        found=found,
    )
