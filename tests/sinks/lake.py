"""Folder that jobs release to, without Spark. A staged file is one row: its content."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_folders import FileFolders
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.file.occupancy import Mode
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.file_names import is_data_file
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage


class Lake:
    def __init__(self, uri: str | Path) -> None:
        self.uri = str(uri)
        self.folders = FileFolders.open(Location(self.uri))
        self.storage, self.parent, self.books = self.folders.target, self.folders.parent, self.folders.books

    def bind(
        self, job: str, mode: Mode = "overwrite", uid: str = "lake", storage: Storage | None = None
    ) -> BoundFileSink:
        """Bind the sink again, as another process of the job would."""
        return FileSink(self.uri, mode=mode).bind_to(storage or self.parent, SinkContext(job, uid))

    def new(
        self, job: str, mode: Mode = "overwrite", uid: str = "lake", storage: Storage | None = None
    ) -> BoundFileSink:
        """Bind and prepare the sink, as a job does that starts for the first time."""
        sink = self.bind(job, mode, uid, storage)
        sink.check_target()
        sink.prepare()
        return sink

    def staged(self, job: str, batch: int, *rows: str, uid: str = "lake", since: int = 0) -> Handle:
        """Stage a batch of ``job`` as :meth:`BoundSink.stage` does.

        ``since``: number of releases seen by its driver.
        """
        files = StagedFiles(self.folders, SinkContext(job, uid))
        request = StageRequest("a1", batch, f"n{batch}", counted)
        names = [(f"part-{number:05d}.txt", row.encode()) for number, row in enumerate(rows)]
        for name, data in names:
            self.books.create(f"{files.place(request.id)}/{name}", data)
        return files.handle(request, len(rows), since, [(name, len(data)) for name, data in names])

    def release(self, job: str, *rows: str, mode: Mode = "overwrite", uid: str = "lake") -> BoundFileSink:
        """Run a whole job, from its start to the release of its only checkpoint."""
        sink = self.new(job, mode, uid)
        sink.release([self.staged(job, 1, *rows, uid=uid)] if rows else [], 1)
        return sink

    def listed(self) -> list[str]:
        """Return the rows that a reader finds by listing the folder."""
        return sorted(self._row(path) for path, _ in self.storage.files("") if is_data_file(path))

    def named(self, job: str | None = None) -> list[str]:
        """Return the rows that a reader finds by following the manifests."""
        return sorted(self._row(file.path) for manifest in read_manifests(self.uri, job) for file in manifest.files)

    def _row(self, path: str) -> str:
        return self.storage.read(path).decode()

    def paths(self) -> list[str]:
        """Return the paths of all files in the folder and in the folder next to it."""
        return [path for storage in (self.storage, self.books) for path, _ in storage.files("")]
