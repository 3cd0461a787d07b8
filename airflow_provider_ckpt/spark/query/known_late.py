"""The late files of a source that somebody was told of: each run tells of the new ones only.

They are kept beside the frozen list, and not in the journal: each driver, sensor and ``ckpt show`` reads the whole of
that, and a folder that goes on getting files would have it grow for ever."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import late_path
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

KIND = "late-files"
VERSION = 1


@dataclass(frozen=True)
class Looked:
    """``epoch``: of the run that looked last; 0 if none did. ``files``: what was there then, and came late."""

    epoch: int = 0
    files: frozenset[str] = frozenset()


class KnownLate:
    """``frozen``: the path of the source's frozen list in ``storage``."""

    def __init__(self, storage: Storage, frozen: str, uid: str) -> None:
        self._storage, self._path, self._uid = storage, late_path(frozen), uid

    def read(self) -> Looked:
        """Nothing depends on it but what is told once more. Raises NewerFormatError, and what the storage fails
        with."""
        uri = self._storage.full_uri(self._path)
        try:
            with refused_as(lambda why: MalformedDocumentError(uri=uri, what=KIND, reason=why)):
                body = decode_document(self._storage.read(self._path), KIND, VERSION, uri=uri)
                files = read_field(body, "files", reader(tuple[str, ...]))
                return Looked(read_field(body, "epoch", reader(Count)), frozenset(files))
        except ObjectNotFoundError:
            return Looked()
        except MalformedDocumentError as error:
            log.warning("which late files of %s were told of cannot be read, so all are told of again: %s", uri, error)
            return Looked()

    def write(self, epoch: int, files: Collection[str]) -> None:
        """``files``: all late ones that are there. One that was taken away, and comes back, is told of again."""
        document = encode_document(KIND, VERSION, uid=self._uid, epoch=epoch, files=sorted(files))
        self._storage.replace(self._path, document)


def file_sources(state: JobState) -> dict[str, str]:
    """Uid of each bounded file source -> where its frozen list is. What a source reads is in the journal."""
    definition = state.definition
    found = {}
    for uid, source in ({} if definition is None else definition.sources).items():
        known = state.frozen.get(uid)
        if source.format is not None and source.paths and known is not None and known.path is not None:
            found[uid] = f"{state.job_id}/{known.path}"
    return found


def not_looked_at(storage: Storage, state: JobState) -> list[str]:
    """Sources to whose folders files may have come late, and nobody has looked when the job finished: its driver died
    then, or workers ran it. Of earlier releases it cannot be told. Raises as :meth:`KnownLate.read`."""
    watched = {uid: frozen for uid, frozen in file_sources(state).items() if state.frozen[uid].watched}
    return [uid for uid, frozen in watched.items() if KnownLate(storage, frozen, uid).read().epoch < state.epoch]
