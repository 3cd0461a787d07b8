"""Checks of handles when they are read. A subtask's log may hold a handle for weeks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.sinks.errors import DamagedHandleError, UnknownHandleError
from airflow_provider_ckpt.sinks.sink import SinkContext


@contextmanager
def reading_handle(handle: Mapping[str, Any], handle_format: str, context: SinkContext) -> Iterator[None]:
    """Refuse a handle of another format, and a handle in which the block finds a damaged field (UnknownFormError).

    Raises UnknownHandleError, DamagedHandleError.
    """
    if handle.get("format") != handle_format or handle.get("version") != 1:
        raise UnknownHandleError(format=handle.get("format"), version=handle.get("version"), known=handle_format)
    try:
        yield
    except UnknownFormError as error:
        problem = error.data["what"]
        raise DamagedHandleError(sink=context.uid, job=context.job_id, handle=dict(handle), problem=problem) from None
