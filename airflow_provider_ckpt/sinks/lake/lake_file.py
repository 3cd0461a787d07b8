"""A data file of a table, as it was staged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count


@dataclass(frozen=True)
class LakeFile:
    """A staged data file.

    Args:
        path: path relative to the table's folder; a real name, which must not be unescaped.
        size: bytes.
        rows: number of rows.
        target: path after the release, like ``path``. It equals ``path`` if only the rows are released, not the file.
        partition: column -> value, spelled as the table format does.
        stats: column -> (least value, greatest value, number of nulls).
    """

    path: str
    size: Count
    rows: Count
    target: str
    partition: Mapping[str, str | None] = field(default_factory=dict, metadata=OMIT_EMPTY)
    stats: Mapping[str, tuple[int | None, int | None, int]] = field(default_factory=dict, metadata=OMIT_EMPTY)
