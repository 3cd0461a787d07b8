"""The dialect of MySQL and MariaDB: sessions, errors, statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pymysql
from sqlalchemy import Connection, Engine, Executable, Table, and_, case, delete, false, null, select, text, update
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import DropTable
from sqlalchemy.sql.dml import Insert

from airflow_provider_ckpt.sinks.database.database_sink import STATEMENT_TIMEOUT
from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.sql.dialect import Dialect
from airflow_provider_ckpt.sinks.sql.inserting import DATABASE_CODES, LOGIN_CODES, NO_TLS, code_of, open_session
from airflow_provider_ckpt.sinks.sql.mysql_catalog import MySQLCatalog
from airflow_provider_ckpt.sinks.sql.mysql_refusals import Read, explain
from airflow_provider_ckpt.sinks.sql.mysql_triggers import read_trigger_writes
from airflow_provider_ckpt.sinks.sql.mysql_types import column_type_for, fits
from airflow_provider_ckpt.sinks.sql.tables import existing_table
from airflow_provider_ckpt.sinks.sql.target_table import TriggerWrites

_MODE = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
)
"""The complete SQL mode of a session.

ANSI_QUOTES and NO_BACKSLASH_ESCAPES are absent, because they would change the meaning of PyMySQL's literals. With
NO_AUTO_VALUE_ON_ZERO a 0 stays 0 in an AUTO_INCREMENT column.
"""
_TIMEOUTS = {"connect_timeout": 10, "read_timeout": STATEMENT_TIMEOUT, "write_timeout": 600}
"""Default timeouts of PyMySQL's connections, in seconds."""
_SETTLE = (
    f"SET SESSION sql_mode = '{_MODE}', time_zone = '+00:00', foreign_key_checks = 1, unique_checks = 1",
    # never cut or refuse a result for its size; keep the session after a COMMIT
    "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, "
    "completion_type = 0",
    # 10 s for a row or table that another session has locked
    "SET SESSION innodb_lock_wait_timeout = 10, lock_wait_timeout = 10",
    # 8 h: an executor's session waits for Spark's next rows, and holds no locks meanwhile
    "SET SESSION wait_timeout = 28800",
    # after waiting for a lock, the session sees other sessions' commits
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_UNANSWERED = (0, 2002, 2003, 2006, 2013, 2014, NO_TLS, 2055)
_GOING_AWAY = (1040, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1081, 1129, 1152, 1184, 1927, 4031)
_NETWORK = (1158, 1159, 1160, 1161)
_LOCKS = (1205, 1213, 1614, 3572, 1020, 1412)
_RESOURCES = (1021, 1030, 1037, 1038, 1041, 1114, 1135, 1203, 1226)
_OPERATOR = (1290, 1317, 1792, 1836, 1969, 3024)
"""Codes for a read-only server, a statement that an operator ended, and a time limit."""
_TRANSIENT = frozenset((*LOGIN_CODES, *_UNANSWERED, *_GOING_AWAY, *_NETWORK, *_LOCKS, *_RESOURCES, *_OPERATOR))
_DENIED, _ABSENT = (1142, 1143), (1146,)


class MySQLDialect(MySQLCatalog, Dialect):
    name = "MySQL"
    url = "mysql+pymysql://"
    ddl_commits = True
    triggers_skip_rows = False
    names_key = False

    def connect_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        settings = {**_TIMEOUTS, **parameters, "charset": "utf8mb4", "autocommit": False}
        settings["write_timeout"] = min(settings["write_timeout"], settings["read_timeout"])
        if isinstance(settings.get("password"), str):
            # servers expect UTF-8; PyMySQL would encode a text as latin1
            settings["password"] = settings["password"].encode()
        return settings

    def connect(self, **parameters: Any) -> Any:
        return pymysql.connect(**parameters)

    def absence(self, parameters: Mapping[str, Any]) -> str | None:
        return None  # a server may return soon

    def open_connection(self, connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        return open_session(connect, parameters)

    def session_statements(self) -> Sequence[str]:
        return _SETTLE

    def configure_transactions(self, engine: Engine) -> None:
        """Do nothing, because a transaction begins with its first statement."""

    def is_transient(self, code: int, *, is_connected: bool) -> bool:
        """Return True if another try may succeed, also after a refused login, because a new password may be set."""
        return code in _TRANSIENT or (not is_connected and code in DATABASE_CODES)

    def explain(self, error: Any, table: TableName, key: Collection[str], read: Read) -> str:
        return explain(error, table, key, read)

    def may_skip_rows(self, connection: Connection, name: TableName) -> bool:
        """Return False. A trigger can change a row or refuse it, but not skip it."""
        return False

    def trigger_writes(self, connection: Connection, name: TableName, events: Collection[str]) -> TriggerWrites:
        return read_trigger_writes(connection, name, events)

    def skips_conflicts(self, connection: Connection, name: TableName) -> bool:
        return False

    def lacking_rights(
        self, connection: Connection, table: Table, columns: Sequence[str], needed: Collection[str]
    ) -> Iterator[str]:
        """Yield the missing rights.

        Each right is tested by a statement that matches no row, because the catalog does not show rights of roles.
        """
        rows = select(*(table.c[name] for name in columns)).where(false())
        changed = {name: table.c[name] for name in columns}
        statements = {
            "SELECT": rows,
            "INSERT": mysql.insert(table).from_select(list(columns), rows),
            "UPDATE": update(table).values(changed).where(false()),
            "DELETE": delete(table).where(false()),
        }
        for right, statement in statements.items():
            if right in needed and not _is_allowed(connection, statement):
                yield right

    def lacking_to_stage(self, connection: Connection, name: TableName) -> Iterator[str]:
        """Yield the missing rights. Statements on an absent table test them: the server checks rights before tables."""
        table = existing_table(name, ["id"])
        statements: dict[str, Executable] = {
            "SELECT": select(table.c.id).where(false()),
            "INSERT": mysql.insert(table).values(id=0),
            "UPDATE": update(table).values(id=0).where(false()),
            "DELETE": delete(table).where(false()),
            "DROP": DropTable(table, if_exists=True),
        }
        lacking = [right for right, statement in statements.items() if not _is_allowed(connection, statement)]
        # LIKE needs SELECT, too, and would be refused without it. A missing SELECT is reported first.
        if "SELECT" not in lacking and not _is_allowed(connection, _create_like_absent(name)):
            lacking.append("CREATE")
        yield from lacking

    def fits(self, kind: Any, column: str) -> bool:
        return fits(kind, column)

    def column_type_for(self, connection: Connection, kind: Any, *, is_key: bool) -> str | None:
        return column_type_for(kind, self.exact_collation(connection), is_key=is_key)

    def insert(self, table: Table) -> Insert:
        return mysql.insert(table)

    def failing_on_conflict(self, insert: Insert) -> Insert:
        return insert

    def insert_absent(self, table: Table, values: Mapping[str, Any]) -> Insert:
        """Return an insert that leaves an existing row unchanged. INSERT IGNORE would hide other errors, too."""
        [first, *_] = table.primary_key.columns
        return mysql.insert(table).values(values).on_duplicate_key_update({first.name: first})

    def upsert(self, table: Table, columns: Sequence[str], rows: Any, key: Sequence[str], guard: str | None) -> Insert:
        """Return an upsert that refuses to replace a row of another key.

        ON DUPLICATE KEY reacts to every unique index. If a row of another key would be replaced, the update sets
        ``guard`` to NULL, which strict mode refuses.
        """
        insert = mysql.insert(table).from_select(list(columns), rows)
        # The key is assigned to itself. Otherwise a TIMESTAMP with ON UPDATE would get the current time.
        changed: dict[str, Any] = {name: table.c[name] if name in key else insert.inserted[name] for name in columns}
        if guard is not None:
            is_same = and_(*(table.c[name] == insert.inserted[name] for name in key))
            changed[guard] = case((is_same, table.c[guard]), else_=null())
        return insert.on_duplicate_key_update(changed)

    def insert_text(self, table: Table) -> str:
        """Return the text of the INSERT. PyMySQL sends it unchanged, so names are quoted and no % is doubled."""
        quote = mysql.dialect().identifier_preparer
        names = ", ".join(quote.quote(column.name) for column in table.columns)
        return f"INSERT INTO {quote.format_table(table)} ({names}) VALUES "


def _create_like_absent(name: TableName) -> Executable:
    quote = mysql.dialect().identifier_preparer.format_table
    new, none = (quote(existing_table(table, [])) for table in (name, TableName(name.schema, f"{name.name}_none")))
    return text(f"CREATE TABLE {new} LIKE {none}".replace(":", "\\:"))


def _is_allowed(connection: Connection, statement: Executable) -> bool:
    """Return True if the user may run a statement that changes nothing."""
    try:
        connection.execute(statement)
    except DBAPIError as error:
        code = code_of(error.orig)
        if code not in (*_DENIED, *_ABSENT):
            raise
        return code in _ABSENT
    return True
