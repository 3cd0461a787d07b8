"""Where a file sink keeps what is not released."""

from __future__ import annotations

from pathlib import Path


def table_of(folder: Path | str) -> Path:
    """Return the folder of the table that a sink's folder belongs to: folders named ``column=value`` are partitions."""
    table = Path(folder)
    while "=" in table.name:
        table = table.parent
    return table


def books(folder: Path | str) -> Path:
    """Return the bookkeeping folder of a sink that writes to ``folder``."""
    parent = table_of(folder).parent
    return parent / f"_ckpt-{Path(folder).relative_to(parent)}"
