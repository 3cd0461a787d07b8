"""PostgreSQL's rules for names."""

from __future__ import annotations

from airflow_provider_ckpt.sinks.database.names import TableName, staging_hash
from airflow_provider_ckpt.sinks.database.names import parse_table as parse

MAX_NAME_LENGTH = 63
"""Limit of a name in bytes. PostgreSQL silently cuts a longer name."""


def parse_table(text: str) -> TableName:
    """Parse the name of a table. The default schema is ``public``.

    Raises ValueError, whose text describes the problem.
    """
    return parse(text, "public", problem_of)


def problem_of(name: str) -> str | None:
    """Return why PostgreSQL cannot have a table, schema or column called ``name``; None if it can."""
    if not name or "\0" in name:
        return "is empty or holds a NUL"
    size = len(name.encode())
    return f"has {size} bytes, and PostgreSQL keeps {MAX_NAME_LENGTH} of a name" if size > MAX_NAME_LENGTH else None


def staging_table(job_id: str, sink: str, handle_id: str) -> str:
    return f"s_{staging_hash(job_id, sink, handle_id)}"
