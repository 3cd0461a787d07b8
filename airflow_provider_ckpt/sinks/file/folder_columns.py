"""The columns of the sinks that write to one folder: a check before a sink writes, and each sink's record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from airflow_provider_ckpt.model.json_form import reader
from airflow_provider_ckpt.sinks.file.column_differences import Columns, columns_refused, differences, type_differences
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_writer import FileWriter
from airflow_provider_ckpt.sinks.file_names import format_of, is_data_file, released_by, sink_folder
from airflow_provider_ckpt.sinks.parquet_footers import parquet_columns
from airflow_provider_ckpt.sinks.record_reader import read_record
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.storage import Storage


class FolderColumns:
    """The check of one sink's columns against those of the rows in its folder.

    ``visible_sinks``: returns the sinks whose rows readers of the folder find.
    """

    def __init__(
        self, folders: FileFolders, name: SinkName, writer: FileWriter, visible_sinks: Callable[[], Iterable[SinkName]]
    ) -> None:
        self._folder = folders.target
        self._name = name
        self._writer = writer
        self._visible_sinks = visible_sinks
        self._record = ColumnRecord(folders.books)
        self._given: SinkInput | None = None

    def check(self, given: SinkInput, *, is_first: bool) -> None:
        """Refuse input columns that differ from those of the rows in the folder.

        Between two runs a job may add and omit columns, if the format identifies columns by name. ``is_first``: True if
        the sink has released nothing and adds to existing files.

        Raises TargetRefusedError.
        """
        self._given = given
        for name in self._visible_sinks():
            recorded = self._record.read(name)
            if recorded is not None:
                self._compare(given, recorded, self._description(name), is_own=name.job_id == self._name.job_id)
        foreign_file = self._foreign_file() if is_first else None
        if foreign_file is not None:
            self._compare(given, foreign_file[1], f"file {foreign_file[0]!r}")

    def record(self) -> None:
        """Record the columns of the last :meth:`check`, for checks of other sinks. Without a check, do nothing."""
        if self._given is not None:
            self._record.write(self._name, self._given.columns)

    def _compare(self, given: SinkInput, columns: Columns, other_name: str, *, is_own: bool = False) -> None:
        own_name, file_format = f"sink {given.uid}", self._writer.format
        if is_own and file_format != "csv":
            phrases = list(type_differences(given.columns, columns, own_name, other_name))
        else:
            phrases = differences(given.columns, columns, own_name, other_name, file_format, self._writer.partition_by)
        if phrases:
            raise columns_refused(given.uid, self._folder.uri, other_name, phrases)

    def _description(self, name: SinkName) -> str:
        if name == self._name:
            return "what it has released"
        return f"sink {name.sink}" if name.job_id == self._name.job_id else f"job {name.job_id!r} (sink {name.sink})"

    def _foreign_file(self) -> tuple[str, Columns] | None:
        """Return (path, columns with partition columns) of a Parquet file that no job has released.

        None if there is no such file, or the sink writes another format.
        """
        if self._writer.format != "parquet":
            return None
        for path, size in self._folder.files(""):
            if is_data_file(path) and format_of(path) == "parquet" and released_by(path) is None:
                partitions = [
                    (unquote(folder.partition("=")[0]), None) for folder in path.split("/")[:-1] if "=" in folder
                ]
                return path, [*parquet_columns(self._folder, path, size), *partitions]
        return None


KIND = "sink-columns"
VERSION = 1
_Recorded = tuple[tuple[str, Any], ...]


class ColumnRecord:
    """The recorded columns of the sinks of one folder. ``books``: storage of the bookkeeping folder."""

    def __init__(self, books: Storage) -> None:
        self._books = books

    def write(self, name: SinkName, columns: _Recorded) -> None:
        """Record the columns of a sink, and replace its earlier record."""
        if self.read(name) != columns:
            document = encode_document(KIND, VERSION, columns=[list(column) for column in columns])
            self._books.replace(self._path(name), document)

    def read(self, name: SinkName) -> _Recorded | None:
        """Return the columns that a sink recorded; None if it recorded none.

        Raises ReleaseRecordLostError if the record is damaged.
        """
        path, read = self._path(name), reader(_Recorded)
        columns: _Recorded | None = read_record(self._books, path, KIND, VERSION, "columns", read)
        return columns

    def _path(self, name: SinkName) -> str:
        return f"{sink_folder(name.job_id, name.sink)}/columns.json"
