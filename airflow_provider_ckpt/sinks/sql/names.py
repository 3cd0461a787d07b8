"""What MySQL, MariaDB and SQLite all allow of names, and the names of what the sink makes."""

from __future__ import annotations

from airflow_provider_ckpt.sinks.database.names import TableName, staging_hash
from airflow_provider_ckpt.sinks.database.names import parse_table as parse

LONGEST = 64
"""Characters, in MySQL."""


def parse_table(text: str) -> TableName:
    """Without a schema: in the database of the connection. Raises ValueError, which says what is wrong."""
    return parse(text, "", problem_of)


def problem_of(name: str) -> str | None:
    """Why the sink takes no table and no column of that name; None if it does. The same for every database: which one
    it is, a job that names a connection does not know until it runs."""
    if not name or "\0" in name:
        return "is empty or holds a NUL"
    if len(name) > LONGEST:
        return f"has {len(name)} characters, and MySQL takes {LONGEST}"
    # at the beginning of an alias MariaDB takes it away, and a release would miss the column
    if name[0] <= " " or name.endswith(" ") or max(name) > "\uffff":
        return "begins or ends with a blank, or has a character beyond the Basic Multilingual Plane, which is refused"
    # SQLAlchemy doubles it once too often in ON DUPLICATE KEY UPDATE
    return "holds a %, which the driver takes for a parameter" if "%" in name else None


def staging_table(job_id: str, sink: str, handle_id: str) -> str:
    return f"ckpt_s_{staging_hash(job_id, sink, handle_id)}"
