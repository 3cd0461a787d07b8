"""The columns that a file sink writes, recorded in the bookkeeping folder for the next sink that writes there."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError
from airflow_provider_ckpt.sinks.file_names import sink_folder
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

KIND = "sink-columns"
VERSION = 1
Columns = tuple[tuple[str, Any], ...]


class ColumnRecord:
    """The columns of the sinks of one folder. ``books``: its bookkeeping folder."""

    def __init__(self, books: Storage) -> None:
        self._books = books

    def write(self, name: SinkName, columns: Columns) -> None:
        """Record the columns of a sink, in place of those that it recorded before."""
        if self.read(name) != columns:
            document = encode_document(KIND, VERSION, columns=[list(column) for column in columns])
            self._books.replace(self._path(name), document)

    def read(self, name: SinkName) -> Columns | None:
        """Return the columns that a sink recorded; None if it recorded none.

        Raises ReleaseRecordLostError.
        """
        path = self._path(name)
        uri = self._books.full_uri(path)
        try:
            data = self._books.read(path)
        except ObjectNotFoundError:
            return None
        with refused_as(lambda why: ReleaseRecordLostError(uri=uri, problem=f"it is not what was written ({why})")):
            document = decode_document(data, KIND, VERSION, uri=uri)
            return tuple(read_field(document, "columns", reader(tuple[tuple[str, Any], ...])))

    def _path(self, name: SinkName) -> str:
        return f"{sink_folder(name.job_id, name.sink)}/columns.json"
