"""The start mark of a sink that overwrites. It distinguishes an abandoned job from its successor."""

from __future__ import annotations

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import ReleaseLogDamagedError
from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING, sink_folder
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import AlreadyExistsError, ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

MARK = "lake-start"
VERSION = 1


class StartMark:
    """A record of how often jobs had replaced the table's rows when the sink began. It never changes."""

    def __init__(self, storage: Storage, job_id: str, uid: str) -> None:
        self._storage = storage
        self._path = f"{BOOKKEEPING}/{sink_folder(job_id, uid)}/start.json"

    def make(self, overwrites: int) -> None:
        """Create the mark. An existing mark stays as it is."""
        try:
            self._storage.create(self._path, encode_document(MARK, VERSION, overwrites=overwrites))
        except AlreadyExistsError:
            pass

    def read(self) -> int | None:
        """Return the mark; None if the sink has not begun.

        Raises ReleaseLogDamagedError.
        """
        uri = self._storage.full_uri(self._path)
        try:
            data = self._storage.read(self._path)
        except ObjectNotFoundError:
            return None
        with refused_as(lambda why: ReleaseLogDamagedError(uri=uri, problem=f"it is not what was written ({why})")):
            document = decode_document(data, MARK, VERSION, uri=uri)
            return int(read_field(document, "overwrites", reader(Count)))
