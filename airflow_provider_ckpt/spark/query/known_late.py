"""The late files of a source that somebody was told of: each run tells of the new ones only.

They are kept beside the frozen list, and not in the journal: each driver, sensor and ``ckpt show`` reads the whole of
that, and a folder that goes on getting files would have it grow for ever."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.layout import late_path
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

KIND = "late-files"
VERSION = 1


class KnownLate:
    """``frozen``: the path of the source's frozen list in ``storage``."""

    def __init__(self, storage: Storage, frozen: str, uid: str) -> None:
        self._storage, self._path, self._uid = storage, late_path(frozen), uid

    def read(self) -> frozenset[str]:
        """Nothing depends on it but what is told once more. Raises NewerFormatError, and what the storage fails
        with."""
        uri = self._storage.full_uri(self._path)
        try:
            body = decode_document(self._storage.read(self._path), KIND, VERSION, uri=uri)
            return frozenset(read_field(body, "files", reader(tuple[str, ...])))
        except ObjectNotFoundError:
            return frozenset()
        except (MalformedDocumentError, UnknownFormError) as error:
            log.warning("which late files of %s were told of cannot be read, so all are told of again: %s", uri, error)
            return frozenset()

    def write(self, files: Iterable[str]) -> None:
        document = encode_document(KIND, VERSION, uid=self._uid, files=sorted(files))
        self._storage.replace(self._path, document)
