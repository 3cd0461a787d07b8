"""Names of tables and columns in PostgreSQL: exact, always quoted, and never cut."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

LONGEST = 63
"""Bytes. PostgreSQL cuts a longer one, in silence."""
PART = "_ckpt_part"
ROW = "_ckpt_row"
"""Columns of ours in a staging table: the attempt of Spark's task, and the row's number in it."""
_NAME = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^".]+))(?:\.|$)')


@dataclass(frozen=True)
class TableName:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{_shown(self.schema)}.{_shown(self.name)}"


def parse_table(text: str) -> TableName:
    """``orders`` (in the schema ``public``), ``shop.orders``; a part with dots or quotes in it is quoted, as in SQL.
    Upper and lower case are told apart. Raises ValueError, which says what is wrong."""
    parts, at = [], 0
    while at < len(text):
        found = _NAME.match(text, at)
        if found is None:
            raise ValueError('is no name of a table; write schema.table, and quote a part with dots in it ("a.b")')
        parts.append((found["quoted"] or found["plain"] or "").replace('""', '"'))
        at = found.end()
    if not parts or len(parts) > 2 or text.endswith("."):
        raise ValueError("is no name of a table; write schema.table")
    for part in parts:
        problem = problem_of(part)
        if problem:
            raise ValueError(f"has the part {part!r}, which {problem}")
    return TableName(*parts) if len(parts) == 2 else TableName("public", parts[0])


def problem_of(name: str) -> str | None:
    """Why nothing in PostgreSQL can have that name; None if it can."""
    if not name or "\0" in name:
        return "is empty or holds a NUL"
    size = len(name.encode())
    return f"has {size} bytes, and PostgreSQL keeps {LONGEST} of a name" if size > LONGEST else None


def staging_table(job_id: str, sink: str, handle_id: str) -> str:
    """By hash, as ids are longer than names may be; which table is whose says the table ``staged``."""
    return "s_" + hashlib.sha256("\0".join((job_id, sink, handle_id)).encode()).hexdigest()[:40]


def _shown(part: str) -> str:
    return part if re.fullmatch(r"[a-z_][a-z0-9_$]*", part) else '"' + part.replace('"', '""') + '"'
