"""Durable notes of staged but unpublished batches.

The next attempt publishes the batches that Spark has committed (R1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.json_form import read_field, reader, to_json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.model.progress import SourceTimes
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.errors import PreparedLostError
from airflow_provider_ckpt.subtasklog.records import Batch, PartitionFile

KIND = "prepared"
VERSION = 1


@dataclass(frozen=True)
class Prepared:
    """A note of a staged and written batch. Spark commits the batch after the note, and then it is published (R1)."""

    attempt: AttemptId
    batch_id: int
    files: tuple[PartitionFile, ...]
    handles: Mapping[str, Mapping[str, Any]]
    rows: int = 0
    """Number of rows in ``files``."""
    late_rows: int = 0
    """Number of late rows that the query has dropped in the batch."""
    times: Mapping[str, SourceTimes] = field(default_factory=dict)
    """Input → the event times in the batch's rows."""
    malformed: Mapping[str, int] = field(default_factory=dict)
    """Source uid → number of its rows in the batch that do not fit its schema."""

    def batch(self) -> Batch:
        """Return the batch as a record for the log, with empty ``offsets``."""
        return Batch(
            self.batch_id,
            {},
            files=self.files,
            handles={uid: dict(handle) for uid, handle in self.handles.items()},
            rows=self.rows,
            late_rows=self.late_rows,
            times=self.times,
            malformed=self.malformed,
        )


class PreparedStore:
    """The notes of a subtask's staged batches. Each attempt has one object, with its last staged batch."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    @property
    def uri(self) -> str:
        return self._storage.full_uri(self._folder)

    def write(self, prepared: Prepared) -> None:
        document = encode_document(
            KIND,
            VERSION,
            attempt=str(prepared.attempt),
            batch_id=prepared.batch_id,
            files=[{"path": file.path, "size": file.size} for file in prepared.files],
            handles={uid: dict(handle) for uid, handle in prepared.handles.items()},
            **({"rows": prepared.rows} if prepared.rows else {}),
            **({"late_rows": prepared.late_rows} if prepared.late_rows else {}),
            **({"times": to_json(prepared.times)} if prepared.times else {}),
            **({"malformed": dict(prepared.malformed)} if prepared.malformed else {}),
        )
        self._storage.replace(self._path(prepared.attempt), document)

    def read(self, attempt: AttemptId) -> Prepared | None:
        """Return the note of ``attempt``; None if the attempt has none. Raises PreparedLostError, NewerFormatError."""
        path = self._path(attempt)
        try:
            data = self._storage.read(path)
        except ObjectNotFoundError:
            return None
        uri = self._storage.full_uri(path)
        with refused_as(lambda problem: PreparedLostError(uri=uri, problem=f"cannot be read: {problem}")):
            body = decode_document(data, KIND, VERSION, uri=uri)
            return Prepared(
                read_field(body, "attempt", reader(AttemptId)),
                read_field(body, "batch_id", reader(Count)),
                read_field(body, "files", reader(tuple[PartitionFile, ...])),
                read_field(body, "handles", reader(Mapping[str, Mapping[str, Any]])),
                read_field({"rows": 0, **body}, "rows", reader(Count)),
                read_field({"late_rows": 0, **body}, "late_rows", reader(Count)),
                read_field({"times": {}, **body}, "times", reader(Mapping[str, SourceTimes])),
                read_field({"malformed": {}, **body}, "malformed", reader(Mapping[str, Count])),
            )

    def read_all(self) -> list[Prepared]:
        """Return the notes of all attempts, with one LIST and one read for each. Raises the errors of :meth:`read`."""
        attempts = [AttemptId.find(name.removesuffix(".json")) for name in self._storage.list(self._folder)]
        notes = [self.read(attempt) for attempt in attempts if attempt is not None]
        return [note for note in notes if note is not None]

    def delete_before(self, attempt: AttemptId) -> None:
        """Delete the notes of earlier attempts. Before that, publish their committed batches and check the fence."""
        for name in self._storage.list(self._folder):
            other = AttemptId.find(name.removesuffix(".json"))
            if other is not None and other < attempt:
                self._storage.delete(self._path(other))

    def _path(self, attempt: AttemptId) -> str:
        return f"{self._folder}/{attempt}.json"
