"""The list of a source's splits, frozen for all attempts (R11). A split's number is its place in this list."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.jobmaster.errors import FrozenSplitsLostError
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document, lost_as
from airflow_provider_ckpt.storage.storage import Storage

KIND = "frozen-splits"
VERSION = 1


def freeze_splits(storage: Storage, path: str, uid: str, splits: Iterable[Split]) -> tuple[Split, ...]:
    """Write the list if there is none. Return the frozen list, which is the first that any attempt wrote."""
    candidate = tuple(splits)
    values = [{"id": split.id, "value": split.value} for split in candidate]
    document = encode_document(KIND, VERSION, uid=uid, splits=values)
    return candidate if storage.create_if_absent(path, document) else read_frozen_splits(storage, path)


def read_frozen_splits(storage: Storage, path: str) -> tuple[Split, ...]:
    """Return the frozen list.

    Raises NewerFormatError or FrozenSplitsLostError.
    """
    uri = storage.full_uri(path)
    with lost_as(FrozenSplitsLostError, uri):
        body = decode_document(storage.read(path), KIND, VERSION, uri=uri)
        splits: tuple[Split, ...] = read_field(body, "splits", reader(tuple[Split, ...]))
        return splits
