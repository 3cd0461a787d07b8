"""Names of columns in Spark's SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return the name in backticks, because it may have spaces, dots and backticks."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
