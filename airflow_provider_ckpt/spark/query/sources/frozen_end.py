"""The frozen end of a bounded source: a list of files or Kafka offsets, which only the first attempt writes (R11)."""

from __future__ import annotations

from contextlib import suppress

from airflow_provider_ckpt.spark.query.errors import FrozenListLostError
from airflow_provider_ckpt.spark.query.kafka.offsets import KIND, FrozenOffsets
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles, read_frozen
from airflow_provider_ckpt.storage.envelope import PREFIX, lost_as
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.storage.strict_json import parse_json

FrozenEnd = FrozenFiles | FrozenOffsets


def freeze_offsets(storage: Storage, path: str, offsets: FrozenOffsets) -> FrozenOffsets:
    """Write the offsets and return them. If ``path`` exists already, return the offsets of the earlier attempt instead.

    Raises what :func:`read_offsets` raises.
    """
    return offsets if storage.create_if_absent(path, offsets.encoded()) else read_offsets(storage, path)


def read_offsets(storage: Storage, path: str) -> FrozenOffsets:
    """Read frozen offsets from storage.

    Raises NewerFormatError, FrozenListLostError.
    """
    uri = storage.full_uri(path)
    with lost_as(FrozenListLostError, uri):
        return FrozenOffsets.decoded(storage.read(path), uri)


def read_end(storage: Storage, path: str) -> FrozenEnd:
    """Read a frozen end from storage: files or offsets.

    Raises NewerFormatError, FrozenListLostError.
    """
    kind = None
    with suppress(MalformedDocumentError, AttributeError, ObjectNotFoundError):  # the full read below reports the error
        kind = parse_json(storage.read(path), uri=path, what="frozen end").get("format")
    return read_offsets(storage, path) if kind == PREFIX + KIND else read_frozen(storage, path)
