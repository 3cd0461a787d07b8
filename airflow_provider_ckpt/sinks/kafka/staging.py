"""The staged rows of a Kafka sink: Parquet files in a folder, and their handles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import StagedElsewhereError
from airflow_provider_ckpt.sinks.handles import reading_handle
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext
from airflow_provider_ckpt.sinks.staging_area import StagingArea
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.storage import Storage

HANDLE_FORMAT = "airflow-provider-ckpt/kafka-handle"
_ROWS = 10_000


@dataclass(frozen=True)
class _StagedFile:
    path: str
    size: Count


_FIELDS = {
    "id": reader(str),
    "uri": reader(str),
    "topic": reader(str),
    "ledger": reader(str),
    "since_offset": reader(Count),
    "rows": reader(Count),
    "files": reader(list[_StagedFile]),
}


class KafkaStaging(StagingArea):
    """The staged files of one sink, which its handles list."""

    def __init__(self, storage: Storage, context: SinkContext, topic: str) -> None:
        super().__init__(storage, context)
        self._topic = topic

    def handle(
        self, handle_id: str, rows: int, files: Sequence[tuple[str, int]], ledger: str, since_offset: int
    ) -> Handle:
        return {
            "format": HANDLE_FORMAT,
            "version": 1,
            "id": handle_id,
            "uri": self._storage.uri,
            "topic": self._topic,
            "ledger": ledger,
            "since_offset": since_offset,
            "rows": rows,
            "files": [{"path": path, "size": size} for path, size in files],
        }

    def read_handle(self, handle: Handle) -> Handle:
        """Return the handle if it is complete and belongs to this folder and topic.

        Raises UnknownHandleError, DamagedHandleError, StagedElsewhereError.
        """
        with reading_handle(handle, HANDLE_FORMAT, self._context):
            for name, read in _FIELDS.items():
                read_field(handle, name, read)
        for staged_for, current in ((handle["uri"], self._storage.uri), (handle["topic"], self._topic)):
            if staged_for != current:
                raise StagedElsewhereError(
                    sink=self._context.uid, uri=current, handle=handle["id"], staged_for=staged_for
                )
        return handle

    def verify(self, waiting: Sequence[Handle], checkpoint: int) -> None:
        """Check that every file exists with its recorded size.

        Raises StagedFilesMissingError, StagedDataDamagedError.
        """
        missing = []
        for handle in waiting:
            place = self.place(handle["id"])
            sizes = dict(self._storage.child(place).files(""))
            for file in handle["files"]:
                size = sizes.get(file["path"])
                path = f"{place}/{file['path']}"
                if size is None:
                    missing.append(path)
                elif size != file["size"]:
                    self._refuse_changed(path, file["size"], size, checkpoint)
        self._refuse_missing(missing, checkpoint)

    def messages(self, handle: Handle, checkpoint: int) -> Iterator[list[dict[str, Any]]]:
        """Yield lists of rows of a batch, each row as column -> value. Only one file is in memory at a time.

        Raises StagedFilesMissingError, because another releaser may have released and deleted the file.
        """
        from pyarrow import parquet

        for file in handle["files"]:
            path = f"{self.place(handle['id'])}/{file['path']}"
            try:
                data = self._storage.read(path)
            except ObjectNotFoundError:
                raise self._files_missing([path], checkpoint) from None
            for batch in parquet.ParquetFile(BytesIO(data)).iter_batches(_ROWS):
                yield batch.to_pylist()
