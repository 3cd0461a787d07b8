"""A document that was written once and has to be there for as long as its job lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as


@contextmanager
def lost_as(error: type[CkptError], uri: str) -> Iterator[None]:
    """In the block the document ``uri`` is read. That it is gone, or cannot be understood, is raised as ``error``, with
    ``uri`` and ``problem``: never as if there had been none. A storage that fails, and a later release's document,
    raise what they always do."""
    try:
        with refused_as(lambda problem: error(uri=uri, problem=f"cannot be read: {problem}")):
            yield
    except ObjectNotFoundError as cause:
        raise error(uri=uri, problem="is gone") from cause
