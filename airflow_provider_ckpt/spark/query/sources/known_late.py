"""The late files of a bounded source that were already reported, so that each run reports only new late files.

Their list is stored next to the source's frozen list, and not in the journal. A folder that keeps getting files would
make the journal grow without limit. Each driver, sensor and ``ckpt show`` reads the whole journal.
"""

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
class LateFilesSeen:
    """The result of the last check for late files.

    Attributes:
        epoch: epoch of the run that checked; 0 if no run has checked.
        files: URIs of all late files that the check found.
    """

    epoch: int = 0
    files: frozenset[str] = frozenset()


class KnownLate:
    """Store for the result of a source's last check for late files. ``frozen``: path of the source's frozen list."""

    def __init__(self, storage: Storage, frozen: str, uid: str) -> None:
        self._storage, self._path, self._uid = storage, late_path(frozen), uid

    def read(self) -> LateFilesSeen:
        """Return the result of the last check; an empty result if no check was stored, or if its file is unreadable.

        After an empty result, late files are only reported once more.

        Raises NewerFormatError, and what the storage raises.
        """
        uri = self._storage.full_uri(self._path)
        try:
            with refused_as(lambda why: MalformedDocumentError(uri=uri, what=KIND, reason=why)):
                body = decode_document(self._storage.read(self._path), KIND, VERSION, uri=uri)
                files = read_field(body, "files", reader(tuple[str, ...]))
                return LateFilesSeen(read_field(body, "epoch", reader(Count)), frozenset(files))
        except ObjectNotFoundError:
            return LateFilesSeen()
        except MalformedDocumentError as error:
            log.warning("the list of reported late files %s cannot be read, so all are reported again: %s", uri, error)
            return LateFilesSeen()

    def write(self, epoch: int, files: Collection[str]) -> None:
        """Store the result of a check. ``files``: all late files that exist now.

        So a late file that is moved away and later comes back is reported again.
        """
        document = encode_document(KIND, VERSION, uid=self._uid, epoch=epoch, files=sorted(files))
        self._storage.replace(self._path, document)


def file_sources(state: JobState) -> dict[str, str]:
    """Return source uid -> path of its frozen list, for the bounded file sources whose lists are frozen."""
    definition = state.definition
    ends = {}
    for uid, source in ({} if definition is None else definition.sources).items():
        recorded = state.frozen.get(uid)
        if source.format is not None and source.paths and recorded is not None and recorded.path is not None:
            ends[uid] = f"{state.job_id}/{recorded.path}"
    return ends


def unchecked_sources(storage: Storage, state: JobState) -> list[str]:
    """Return the bounded file sources that were not checked for late files in the journal's last epoch.

    The check is missing if the driver died before it, or if workers ran the job.

    Raises what :meth:`KnownLate.read` raises.
    """
    return [
        uid for uid, frozen in file_sources(state).items() if KnownLate(storage, frozen, uid).read().epoch < state.epoch
    ]
