"""The rules for names that MySQL, MariaDB and SQLite share, and the names that the sink creates."""

from __future__ import annotations

from airflow_provider_ckpt.sinks.database.names import TableName, staging_hash
from airflow_provider_ckpt.sinks.database.names import parse_table as parse

MAX_NAME_LENGTH = 64
"""Maximum number of characters of a name in MySQL."""


def parse_table(text: str) -> TableName:
    """Parse the name of a table. The default schema is the database of the connection.

    Raises ValueError, whose text describes the problem.
    """
    return parse(text, "", problem_of)


def problem_of(name: str) -> str | None:
    """Return why a table or column name is refused, whichever database is used; None if it is accepted."""
    if not name or "\0" in name:
        return "is empty or holds a NUL"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters, and MySQL takes {MAX_NAME_LENGTH}"
    # MariaDB removes a leading blank of an alias, and a release would miss the column.
    if name[0] <= " " or name.endswith(" ") or max(name) > "\uffff":
        return "begins or ends with a blank, or has a character beyond the Basic Multilingual Plane, which is refused"
    # SQLAlchemy doubles a % once too often in ON DUPLICATE KEY UPDATE.
    return "holds a %, which the driver takes for a parameter" if "%" in name else None


def staging_table(job_id: str, sink: str, handle_id: str) -> str:
    return f"ckpt_s_{staging_hash(job_id, sink, handle_id)}"
