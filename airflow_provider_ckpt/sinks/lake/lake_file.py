"""A data file of a table, as it was staged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count


@dataclass(frozen=True)
class LakeFile:
    """``path`` and ``target`` (its name when released; the same if its rows are, and not the file) are relative
    to the table's folder and real names, in which nothing is to be unescaped. ``partition``: column -> value as the
    table format writes it. ``stats``: column -> (least, greatest, number of nulls)."""

    path: str
    size: Count
    rows: Count
    target: str
    partition: Mapping[str, str | None] = field(default_factory=dict, metadata=LATER)
    stats: Mapping[str, tuple[int | None, int | None, int]] = field(default_factory=dict, metadata=LATER)
