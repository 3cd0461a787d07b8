"""Where a file sink keeps what is not released."""

from __future__ import annotations

from pathlib import Path


def books(folder: Path | str) -> Path:
    """Return the bookkeeping folder of a sink that writes to ``folder``."""
    table = Path(folder)
    return table.parent / f"_ckpt-{table.name}"
