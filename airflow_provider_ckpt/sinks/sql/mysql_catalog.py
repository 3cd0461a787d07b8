"""Queries of the catalog of MySQL and MariaDB, about the server and about a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, text

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.database.table_checks import Problem
from airflow_provider_ckpt.sinks.sql.mysql_types import NOT_NULL_TIMESTAMP
from airflow_provider_ckpt.sinks.sql.tables import portions
from airflow_provider_ckpt.sinks.sql.target_table import SqlColumn, SqlTable

_OLDEST = {True: (10, 5), False: (8, 0, 19)}
"""Oldest version of MariaDB (True) and MySQL (False), with CHECKs, window functions and a limit for idle sessions."""
_DURABLE = (1, 3)
_TABLE = """
SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = :s AND table_name = :n
"""
_COLUMNS = """
SELECT column_name, column_type, is_nullable, column_default, extra, character_set_name, collation_name,
  character_maximum_length, character_octet_length, data_type
FROM information_schema.columns WHERE table_schema = :s AND table_name = :n ORDER BY ordinal_position
"""
_INDEXES = """
SELECT index_name, column_name, sub_part FROM information_schema.statistics
WHERE table_schema = :s AND table_name = :n AND non_unique = 0 ORDER BY index_name, seq_in_index
"""
_CHECKS = """
SELECT check_clause FROM information_schema.check_constraints
WHERE constraint_schema = :s AND table_name = :n ORDER BY constraint_name
"""
"""A query for MariaDB only, because MySQL's catalog spells the texts in CHECKs in another way than its SQL."""
_SIZES = text(
    "SELECT table_name, greatest(coalesce(data_length + index_length, 0), 1) FROM information_schema.tables "
    "WHERE table_schema = :s AND table_name IN :n"
).bindparams(bindparam("n", expanding=True))
_ENGINES = text(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = :s AND table_name IN :n "
    "AND coalesce(engine, '') <> 'InnoDB'"
).bindparams(bindparam("n", expanding=True))
_KINDS = {"VIEW": "a view", "SYSTEM VIEW": "a view", "SEQUENCE": "a sequence"}


class MySQLCatalog:
    def server_problem(self, connection: Connection) -> str | None:
        is_maria = bool(getattr(connection.dialect, "is_mariadb", False))
        version = tuple(connection.dialect.server_version_info or ())
        name = "MariaDB" if is_maria else "MySQL"
        if version < _OLDEST[is_maria]:
            shown, oldest = (".".join(map(str, number)) for number in (version, _OLDEST[is_maria]))
            return f"its server is {name} {shown}; {oldest} is the oldest that the sink works with"
        query = "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@binlog_format"
        flushes, logs, binlog_format = connection.execute(text(query)).one()
        if int(flushes) not in _DURABLE:
            return (
                f"its server has innodb_flush_log_at_trx_commit = {flushes}: a crash undoes commits, and with them "
                "reported releases; set it to 1"
            )
        if int(logs) and binlog_format == "STATEMENT":
            return "its server has binlog_format = STATEMENT, which refuses READ COMMITTED; set it to ROW or MIXED"
        return None

    def exact_collation(self, connection: Connection) -> str:
        """Return a collation that distinguishes all characters, also trailing blanks (unlike ``utf8mb4_bin``)."""
        is_maria = bool(getattr(connection.dialect, "is_mariadb", False))
        return "utf8mb4_nopad_bin" if is_maria else "utf8mb4_0900_bin"

    def schema_problem(self, connection: Connection, schema: str) -> Problem | None:
        if not schema:
            return "neither its connection nor its table names a database", "Write table='database.table'"
        query = text("SELECT count(*) FROM information_schema.schemata WHERE schema_name = :s")
        if connection.execute(query, {"s": schema}).scalar_one():
            return None
        return f"there is no database {schema!r}, or none that its user may see", f"CREATE DATABASE {schema}, or GRANT"

    def name_problem(self, connection: Connection, table: TableName) -> Problem | None:
        is_exact = int(connection.execute(text("SELECT @@lower_case_table_names")).scalar_one()) == 0
        if is_exact or str(table) == str(table).lower():
            return None
        return "its server ignores upper and lower case in names of tables", "Write the name in lower case"

    def sizes(self, connection: Connection, schema: str, names: Collection[str]) -> dict[str, int]:
        sizes = dict[str, int]()
        for portion in portions(list(names)):
            sizes |= {name: int(size) for name, size in connection.execute(_SIZES, {"s": schema, "n": portion})}
        return sizes

    def unsafe_tables(self, connection: Connection, schema: str, names: Collection[str]) -> list[str]:
        return sorted(row[0] for row in connection.execute(_ENGINES, {"s": schema, "n": list(names)}))

    def compared_key(
        self, connection: Connection, name: TableName, staging: Table, key: Sequence[str]
    ) -> list[ColumnElement[Any]]:
        """Return the key columns unchanged, because the staging table has the target's collations."""
        return [staging.c[column] for column in key]

    def read_table(self, connection: Connection, name: TableName) -> SqlTable | None:
        names = {"s": name.schema, "n": name.name}
        parts = [row for row in connection.execute(text(_TABLE), names) if row[0] == name.name]
        if not parts:
            return None
        [(_, kind, engine)] = parts
        columns = {row[0]: _column(row) for row in connection.execute(text(_COLUMNS), names)}
        is_maria = bool(getattr(connection.dialect, "is_mariadb", False))
        uniques: dict[str, list[str]] = {}
        for index, column, part in connection.execute(text(_INDEXES), names):
            # an index on a part of a column, or on an expression, has no set of columns
            uniques.setdefault(index, []).append("" if column is None or part is not None else column)
        checks = tuple(row[0] for row in connection.execute(text(_CHECKS), names)) if is_maria else ()
        by_columns = {index: frozenset() if "" in parts else frozenset(parts) for index, parts in uniques.items()}
        return SqlTable(_refusal(kind, engine), columns, by_columns, checks)


def _refusal(kind: str, engine: str | None) -> str | None:
    if kind != "BASE TABLE":
        return f"it is {_KINDS.get(kind, f'a table of the kind {kind}, which the sink does not know')}"
    if engine != "InnoDB":
        return f"its engine is {engine}, which has no transactions; use ENGINE=InnoDB"
    return None


def _column(row: Any) -> SqlColumn:
    _, kind, nullable, default, extra, charset, collation, characters, octets, base = row
    extra = (extra or "").upper()
    # MariaDB writes a default of NULL as text. MySQL writes DEFAULT_GENERATED for a computed default.
    has_default = "AUTO_INCREMENT" in extra or (default is not None and default != "NULL")
    is_computed = re.search(r"\b(STORED|VIRTUAL|PERSISTENT) GENERATED|^(VIRTUAL|PERSISTENT|STORED)$", extra) is not None
    text_of = f" CHARACTER SET {charset} COLLATE {collation}" if charset is not None else ""
    is_text = base in ("varchar", "char")
    return SqlColumn(
        type=str(kind),
        not_null=nullable == "NO",
        has_default=has_default,
        is_computed=is_computed,
        definition=NOT_NULL_TIMESTAMP if kind == "timestamp(6)" and nullable == "NO" else f"{kind}{text_of}",
        charset=charset,
        characters=int(characters) if is_text and characters is not None else None,
        # the bytes of a VARCHAR follow from its characters
        octets=int(octets) if not is_text and octets is not None else None,
    )
