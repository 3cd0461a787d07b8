"""The reader of a sink's small records in a folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.model.json_form import read_field
from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError
from airflow_provider_ckpt.storage.envelope import decode_document
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage


def read_record(storage: Storage, path: str, kind: str, version: int, name: str, read: Callable[[Any], Any]) -> Any:
    """Return the field ``name`` of a recorded document; None if there is no document.

    Args:
        version: newest version that can be read.
        read: returns the field's value. Raises UnknownFormError for a damaged field.

    Raises ReleaseRecordLostError if the document is damaged.
    """
    uri = storage.full_uri(path)
    try:
        data = storage.read(path)
    except ObjectNotFoundError:
        return None
    with refused_as(lambda problem: ReleaseRecordLostError(uri=uri, problem=f"it is not what was written ({problem})")):
        return read_field(decode_document(data, kind, version, uri=uri), name, read)
