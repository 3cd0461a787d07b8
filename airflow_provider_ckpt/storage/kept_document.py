"""A document that was written once and has to be there for as long as its job lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError, ObjectNotFoundError


@contextmanager
def lost_as(error: type[CkptError], uri: str) -> Iterator[None]:
    """In the block the document ``uri`` is read. That it is gone, or cannot be understood, is raised as ``error``, with
    ``uri`` and ``problem``: never as if there had been none. A storage that fails, and a later release's document,
    raise what they always do."""
    try:
        yield
    except ObjectNotFoundError as cause:
        raise error(uri=uri, problem="is gone") from cause
    except MalformedDocumentError as cause:
        raise error(uri=uri, problem=f"cannot be read: {cause.data['reason']}") from cause
    except UnknownFormError as cause:
        raise error(uri=uri, problem=f"cannot be read: {cause.data['what']}") from cause
