"""The frozen end of a bounded source, of whichever kind: read, or written unless another attempt was first (R11)."""

from __future__ import annotations

from contextlib import suppress

from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.frozen import FrozenFiles, read_frozen
from airflow_provider_ckpt.spark.query.kafka.offsets import KIND, FrozenOffsets
from airflow_provider_ckpt.storage.envelope import PREFIX
from airflow_provider_ckpt.storage.errors import AlreadyExistsError, MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.kept_document import lost_as
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.storage.strict_json import parse_json

FrozenEnd = FrozenFiles | FrozenOffsets


def freeze_offsets(storage: Storage, path: str, asked: FrozenOffsets) -> FrozenOffsets:
    """Write them if there are none; those that are there win (another attempt froze them first). Raises as
    :func:`read_offsets`."""
    try:
        storage.create(path, asked.encoded())
    except AlreadyExistsError:
        return read_offsets(storage, path)
    return asked


def read_offsets(storage: Storage, path: str) -> FrozenOffsets:
    """Raises NewerFormatError, FrozenListLostError."""
    uri = storage.full_uri(path)
    with lost_as(FrozenListLostError, uri):
        return FrozenOffsets.decoded(storage.read(path), uri)


def read_end(storage: Storage, path: str) -> FrozenEnd:
    """Of either kind. Raises NewerFormatError, FrozenListLostError."""
    kind = None
    with suppress(
        MalformedDocumentError, AttributeError, ObjectNotFoundError
    ):  # whoever reads it whole says what is wrong
        kind = parse_json(storage.read(path), uri=path, what="frozen end").get("format")
    return read_offsets(storage, path) if kind == PREFIX + KIND else read_frozen(storage, path)
