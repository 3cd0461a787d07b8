"""The handle of a batch that is staged in a database, and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import DamagedHandleError, StagedElsewhereError, UnknownHandleError
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext

_FIELDS = {
    "id": reader(str),
    "rows": reader(Count),
    "table": reader(str),
    "staged": reader(str),
    "columns": reader(list[str]),
    "types": reader(list[Any]),
    "parts": reader(list[Count]),
    "ledger": reader(str),
    "since": reader(Count),
}


def checked_handle(handle: Mapping[str, Any], known: str, context: SinkContext, table: str) -> Handle:
    """Return the handle if it is whole and was staged for this table.

    Args:
        handle: as the subtask's log holds it. Its ``parts`` are the attempts of Spark's tasks that count.
        known: the format that this sink reads.
        context: job and sink.
        table: the sink's table.

    Raises UnknownHandleError, DamagedHandleError, StagedElsewhereError.
    """
    if handle.get("format") != known or handle.get("version") != 1:
        raise UnknownHandleError(format=handle.get("format"), version=handle.get("version"), known=known)
    try:
        for name, read in _FIELDS.items():
            read_field(handle, name, read)
    except UnknownFormError as error:
        raise DamagedHandleError(
            sink=context.uid, job=context.job_id, handle=dict(handle), problem=error.data["what"]
        ) from None
    if handle["table"] != table:
        raise StagedElsewhereError(
            "Sink {sink} of job {job!r} writes to {table} now, but batch {handle!s:.200} was staged for "
            "{staged_for!s:.500}. Point the sink back to {staged_for!s:.500} until its checkpoint is released; then "
            "change the table.",
            sink=context.uid,
            job=context.job_id,
            table=table,
            handle=handle["id"],
            staged_for=handle["table"],
        )
    return dict(handle)
