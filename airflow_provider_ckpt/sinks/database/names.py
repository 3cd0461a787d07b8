"""Names of tables and of the sinks' own columns and tables: exact, always quoted, and never shortened."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

TASK_ATTEMPT = "_ckpt_part"
ROW = "_ckpt_row"
"""Columns that the sink adds to a staging table: the id of the Spark task's attempt, and the row's number in it."""
_NAME = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^".]+))(?:\.|$)')


@dataclass(frozen=True)
class TableName:
    """A table's name. ``schema`` is a database in MySQL. If it is empty, the connection's database is meant."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{_shown(self.schema)}.{_shown(self.name)}" if self.schema else _shown(self.name)


def parse_table(text: str, schema: str, problem_of: Callable[[str], str | None]) -> TableName:
    """Parse the name of a table: ``orders`` (in ``schema``) or ``shop.orders``.

    Case matters. As in SQL, a name with dots or quotes must be quoted. ``problem_of``: returns why a name is refused;
    None if it is accepted.

    Raises ValueError, whose text describes the problem.
    """
    parts, position = [], 0
    while position < len(text):
        match = _NAME.match(text, position)
        if match is None:
            raise ValueError('is no name of a table; write schema.table, and quote a part with dots in it ("a.b")')
        parts.append((match["quoted"] or match["plain"] or "").replace('""', '"'))
        position = match.end()
    if not parts or len(parts) > 2 or text.endswith("."):
        raise ValueError("is no name of a table; write schema.table")
    for part in parts:
        problem = problem_of(part)
        if problem:
            raise ValueError(f"has the part {part!r}, which {problem}")
    return TableName(*parts) if len(parts) == 2 else TableName(schema, parts[0])


def staging_hash(job_id: str, sink: str, handle_id: str) -> str:
    """Return a hash for the name of a staging table, because handle ids are longer than table names may be."""
    return hashlib.sha256("\0".join((job_id, sink, handle_id)).encode()).hexdigest()[:40]


def _shown(part: str) -> str:
    return part if re.fullmatch(r"[a-z_][a-z0-9_$]*", part) else '"' + part.replace('"', '""') + '"'
