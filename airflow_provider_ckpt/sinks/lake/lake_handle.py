"""The handle of a batch that is staged for a table, and its data files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, from_json, to_json
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import StagedElsewhereError
from airflow_provider_ckpt.sinks.handles import reading_handle
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext


@dataclass(frozen=True)
class LakeFile:
    """A staged data file.

    Args:
        path: real path relative to the table's folder. It must not be unescaped.
        size: size in bytes.
        target: path after the release. It equals ``path`` if only the rows are released, not the file.
        partition: column -> value, in the table format's spelling.
        stats: column -> (least value, greatest value, number of nulls).
    """

    path: str
    size: Count
    rows: Count
    target: str
    partition: Mapping[str, str | None] = field(default_factory=dict, metadata=OMIT_EMPTY)
    stats: Mapping[str, tuple[int | None, int | None, int]] = field(default_factory=dict, metadata=OMIT_EMPTY)


HANDLE_FORMAT = "airflow-provider-ckpt/lake-handle"
VERSION = 1


@dataclass(frozen=True)
class LakeHandle:
    """The handle of a staged batch. ``table``: id of the table.

    ``intents``: number of the sink's intents when the batch was staged. ``applied``: how many of them the table had.
    """

    id: str
    uri: str
    table: str
    intents: Count
    applied: Count
    rows: Count
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    files: tuple[LakeFile, ...]

    def to_json(self) -> Handle:
        return {"format": HANDLE_FORMAT, "version": VERSION, **to_json(self)}

    @classmethod
    def read(cls, handle: Handle, context: SinkContext, uri: str) -> LakeHandle:
        """Return the handle if it is complete and was staged for ``uri``, the current table of the sink.

        Raises UnknownHandleError, DamagedHandleError, StagedElsewhereError.
        """
        with reading_handle(handle, HANDLE_FORMAT, context):
            parsed = from_json(
                cls, {name: value for name, value in handle.items() if name not in ("format", "version")}
            )
        if parsed.uri != uri:
            raise StagedElsewhereError(sink=context.uid, uri=uri, handle=parsed.id, staged_for=parsed.uri)
        return parsed
