"""Documents that are written once and must exist as long as their job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as


@contextmanager
def lost_as(error: type[CkptError], uri: str) -> Iterator[None]:
    """Convert errors of reading the document ``uri`` in the block into ``error``, with ``uri`` and ``problem``.

    A missing or unreadable document is never treated as if it had not been written. A storage that fails, and a
    document of a later release, raise their usual errors.
    """
    try:
        with refused_as(lambda problem: error(uri=uri, problem=f"cannot be read: {problem}")):
            yield
    except ObjectNotFoundError as cause:
        raise error(uri=uri, problem="is gone") from cause
