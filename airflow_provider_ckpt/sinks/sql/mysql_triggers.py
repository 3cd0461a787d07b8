"""The tables that the triggers of a MySQL table write to, found in the source texts in the catalog."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, text

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.sql.target_table import TriggerWrites

_TRIGGERS = text(
    "SELECT trigger_name, action_statement, event_manipulation FROM information_schema.triggers "
    "WHERE event_object_schema = :s AND event_object_table = :n ORDER BY trigger_name"
)
_TABLE = text("SELECT engine FROM information_schema.tables WHERE table_schema = :s AND table_name = :n")
_VIEW = text("SELECT view_definition FROM information_schema.views WHERE table_schema = :s AND table_name = :n")
_ROUTINE = text(
    "SELECT routine_definition FROM information_schema.routines WHERE routine_schema = :s AND routine_name = :n"
)
_TRANSACTIONAL = text("SELECT engine FROM information_schema.engines WHERE transactions = 'YES'")
_TOKEN = re.compile(
    r"--\s[^\n]*|\#[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"
    r'(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")|(?P<word>[\w$]+)|(?P<mark>[.;(])',
    re.DOTALL,
)
"""Pattern of the tokens of an SQL statement. Comments and strings have no group. Double quotes mark names."""
_VERBS = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_ENDS = ("SET", "VALUES", "VALUE", "SELECT", "WHERE", "LIMIT")
"""The words that end the list of a statement's target tables."""


def read_trigger_writes(connection: Connection, table: TableName, events: Collection[str]) -> TriggerWrites:
    """Return the tables to which the table's triggers on ``events`` write."""
    return _TriggerReader(connection).read(table, events)


class _TriggerReader:
    def __init__(self, connection: Connection) -> None:
        self._connection, self._seen = connection, set[tuple[str, TableName]]()
        self._unsafe, self._unknown = list[tuple[str, TableName, str]](), set[str]()

    def read(self, table: TableName, events: Collection[str]) -> TriggerWrites:
        for trigger, statement, event in self._rows(_TRIGGERS, table):
            if event in events:
                self._add_writes(trigger, statement, table.schema)
        return TriggerWrites(tuple(self._unsafe), tuple(sorted(self._unknown)))

    def _add_writes(self, trigger: str, statement: str | None, schema: str) -> None:
        """Add the writes of a statement. ``statement`` is None if the user may not see it."""
        if not statement:
            self._unknown.add(trigger)
            return
        words = read_words(statement, schema)
        for names in words.writes:
            are_tables = [self._is_table(trigger, name) for name in names]
            if not any(are_tables):
                self._unknown.add(trigger)
        for name in words.possible_routines | words.routines:
            for (definition,) in self._unseen_rows("routine", name, _ROUTINE):
                self._add_writes(trigger, definition, name.schema)
        if any(("routine", name) not in self._seen for name in words.routines):
            self._unknown.add(trigger)

    def _is_table(self, trigger: str, name: TableName) -> bool:
        """Add the effects of a write to the table. Return True if the table exists."""
        for (engine,) in self._unseen_rows("table", name, _TABLE):
            for (definition,) in self._rows(_VIEW, name) if engine is None else ():
                self._follow_view(trigger, definition)
            if engine is not None and engine not in self._transactional:
                self._unsafe.append((trigger, name, engine))
            for _, statement, _ in self._rows(_TRIGGERS, name):
                self._add_writes(trigger, statement, name.schema)
        return ("table", name) in self._seen

    def _follow_view(self, trigger: str, definition: str | None) -> None:
        """Add the writes to a view's tables. The catalog qualifies each name in the view's definition."""
        if not definition:
            self._unknown.add(trigger)
        for name in set(_names(_tokens(definition or ""), "")):
            self._is_table(trigger, name)

    def _unseen_rows(self, kind: str, name: TableName, query: Any) -> list[Any]:
        """Return the catalog's rows for a name; no rows if the name was read before."""
        rows = [] if (kind, name) in self._seen else self._rows(query, name)
        self._seen |= {(kind, name)} if rows else set()
        return rows

    @cached_property
    def _transactional(self) -> frozenset[str]:
        return frozenset(self._connection.execute(_TRANSACTIONAL).scalars())

    def _rows(self, query: Any, name: TableName) -> list[Any]:
        return list(self._connection.execute(query, {"s": name.schema, "n": name.name}))


@dataclass(frozen=True)
class Words:
    """The tables and routines that a statement of a trigger or routine names.

    Args:
        writes: for each writing statement, the names that may be its tables. Some are aliases or keywords.
        possible_routines: names that may be routines.
        routines: names that are routines.
    """

    writes: tuple[tuple[TableName, ...], ...]
    possible_routines: frozenset[TableName]
    routines: frozenset[TableName]


def read_words(statement: str, schema: str) -> Words:
    """Return the tables and routines that an SQL statement names. Unqualified names are in ``schema``."""
    tokens = list(_tokens(statement))
    writes, possible_routines, routines = [], set[TableName](), set[TableName]()
    for index, token in enumerate(tokens):
        previous = tokens[index - 1] if index else ""
        if token in _VERBS and previous not in ("KEY", "FOR", "."):
            names = tuple(_names(_until_end(tokens[index + 1 :], is_insert=token in ("INSERT", "REPLACE")), schema))
            writes += [names] if names else []
        elif token == "CALL":
            routines |= set(list(_names(tokens[index + 1 : index + 4], schema))[:1])
        elif token == "(" and index:
            qualified = tokens[index - 3 : index] if index > 2 and tokens[index - 2] == "." else [previous]
            possible_routines |= set(_names(qualified, schema))
    return Words(tuple(writes), frozenset(possible_routines), frozenset(routines))


def _tokens(statement: str) -> Iterator[str]:
    """Yield the words of a statement. Verbs and end words are in upper case, and quoted names begin with a backtick."""
    for match in _TOKEN.finditer(statement):
        if match["quoted"]:
            quote = match["quoted"][0]
            yield "`" + match["quoted"][1:-1].replace(2 * quote, quote)
        elif match["word"]:
            upper = match["word"].upper()
            yield upper if upper in (*_VERBS, *_ENDS, "CALL", "KEY", "FOR") else match["word"]
        elif match["mark"]:
            yield match["mark"]


def _until_end(tokens: list[str], *, is_insert: bool) -> Iterator[str]:
    for token in tokens:
        if token in _ENDS or token == ";" or (token == "(" and is_insert):
            return
        yield token


def _names(tokens: Any, schema: str) -> Iterator[TableName]:
    """Yield the names of tables or routines, qualified or in ``schema``."""
    parts: list[str] = []
    is_joined = False
    for token in tokens:
        if token == ".":
            is_joined = True
        elif token != "(":
            if parts and not is_joined:
                yield _name(parts, schema)
                parts = []
            parts.append(token.removeprefix("`"))
            is_joined = False
    if parts:
        yield _name(parts, schema)


def _name(parts: list[str], schema: str) -> TableName:
    return TableName(parts[0], parts[1]) if len(parts) > 1 else TableName(schema, parts[0])
