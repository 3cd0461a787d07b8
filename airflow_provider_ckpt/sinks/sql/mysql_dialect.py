"""MySQL and MariaDB: sessions, errors, statements."""

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
from airflow_provider_ckpt.sinks.sql.inserting import NO_TLS, OF_DATABASE, OF_LOGIN, code_of, connected
from airflow_provider_ckpt.sinks.sql.mysql_catalog import MySQLCatalog
from airflow_provider_ckpt.sinks.sql.mysql_refusals import Read, explain
from airflow_provider_ckpt.sinks.sql.mysql_triggers import read_trigger_writes
from airflow_provider_ckpt.sinks.sql.mysql_types import fits, made_for
from airflow_provider_ckpt.sinks.sql.tables import known_table
from airflow_provider_ckpt.sinks.sql.target_table import TriggerWrites

_MODE = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO"
)
"""The whole of it: neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES, by which the driver's literals would be read in
another way; and a 0 is a 0 also where the server gives numbers."""
_TIMEOUTS = {"connect_timeout": 10, "read_timeout": STATEMENT_TIMEOUT, "write_timeout": 600}
"""Seconds."""
_SETTLE = (
    f"SET SESSION sql_mode = '{_MODE}', time_zone = '+00:00', foreign_key_checks = 1, unique_checks = 1",
    # no answer is cut, and none refused for its size; a COMMIT ends no session
    "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, "
    "completion_type = 0",
    # 10 s for a row or a table that another one holds
    "SET SESSION innodb_lock_wait_timeout = 10, lock_wait_timeout = 10",
    # 8 h: an executor's waits for Spark's next rows, and holds nothing meanwhile
    "SET SESSION wait_timeout = 28800",
    # others' commits are seen behind a lock
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_UNANSWERED = (0, 2002, 2003, 2006, 2013, 2014, NO_TLS, 2055)
_GOING_AWAY = (1040, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1081, 1129, 1152, 1184, 1927, 4031)
_NETWORK = (1158, 1159, 1160, 1161)
_LOCKS = (1205, 1213, 1614, 3572, 1020, 1412)
_RESOURCES = (1021, 1030, 1037, 1038, 1041, 1114, 1135, 1203, 1226)
_OPERATOR = (1290, 1317, 1792, 1836, 1969, 3024)
"""A server that is read-only for now, a statement that was ended, a time limit."""
_PASSING = frozenset((*OF_LOGIN, *_UNANSWERED, *_GOING_AWAY, *_NETWORK, *_LOCKS, *_RESOURCES, *_OPERATOR))
_DENIED, _ABSENT = (1142, 1143), (1146,)


class MySQLDialect(MySQLCatalog, Dialect):
    name = "MySQL"
    url = "mysql+pymysql://"
    ddl_commits = True
    triggers_skip_rows = False
    names_key = False

    def connect_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        given = {**_TIMEOUTS, **parameters, "charset": "utf8mb4", "autocommit": False}
        given["write_timeout"] = min(given["write_timeout"], given["read_timeout"])
        if isinstance(given.get("password"), str):
            # as servers have it; of a text the driver would make latin1
            given["password"] = given["password"].encode()
        return given

    def connect(self, **parameters: Any) -> Any:
        return pymysql.connect(**parameters)

    def absence(self, parameters: Mapping[str, Any]) -> str | None:
        return None  # a server may be back in a moment

    def connected(self, connect: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        return connected(connect, parameters)

    def settle(self) -> Sequence[str]:
        return _SETTLE

    def attend(self, engine: Engine) -> None:
        """Nothing: a transaction begins with its first statement."""

    def is_passing(self, code: int, *, is_connected: bool) -> bool:
        """A refused login passes: somebody may be rotating the password. With an expired one a session may begin."""
        return code in _PASSING or (not is_connected and code in OF_DATABASE)

    def explain(self, error: Any, table: TableName, key: Collection[str], read: Read) -> str:
        return explain(error, table, key, read)

    def may_leave_rows_out(self, connection: Connection, name: TableName) -> bool:
        """A trigger can change a row and refuse it, and no more."""
        return False

    def trigger_writes(self, connection: Connection, name: TableName, events: Collection[str]) -> TriggerWrites:
        return read_trigger_writes(connection, name, events)

    def passes_over_conflicts(self, connection: Connection, name: TableName) -> bool:
        return False

    def lacking_rights(
        self, connection: Connection, table: Table, columns: Sequence[str], needed: Collection[str]
    ) -> Iterator[str]:
        """The catalog does not say what roles allow; statements that find no row do."""
        rows = select(*(table.c[name] for name in columns)).where(false())
        changed = {name: table.c[name] for name in columns}
        tried = {
            "SELECT": rows,
            "INSERT": mysql.insert(table).from_select(list(columns), rows),
            "UPDATE": update(table).values(changed).where(false()),
            "DELETE": delete(table).where(false()),
        }
        for right, statement in tried.items():
            if right in needed and not _is_allowed(connection, statement):
                yield right

    def lacking_to_stage(self, connection: Connection, name: TableName) -> Iterator[str]:
        """The server looks at rights before it looks for the table: nothing is made of one that is not there."""
        table = known_table(name, ["id"])
        tried: dict[str, Executable] = {
            "SELECT": select(table.c.id).where(false()),
            "INSERT": mysql.insert(table).values(id=0),
            "UPDATE": update(table).values(id=0).where(false()),
            "DELETE": delete(table).where(false()),
            "DROP": DropTable(table, if_exists=True),
        }
        lacking = [right for right, statement in tried.items() if not _is_allowed(connection, statement)]
        # LIKE wants SELECT, too, and would be refused for that: it is told first then
        if "SELECT" not in lacking and not _is_allowed(connection, _made_like_none(name)):
            lacking.append("CREATE")
        yield from lacking

    def fits(self, kind: Any, column: str) -> bool:
        return fits(kind, column)

    def made_for(self, connection: Connection, kind: Any, *, is_key: bool) -> str | None:
        return made_for(kind, self.exact_collation(connection), is_key=is_key)

    def insert(self, table: Table) -> Insert:
        return mysql.insert(table)

    def overruling(self, insert: Insert) -> Insert:
        return insert

    def insert_absent(self, table: Table, values: Mapping[str, Any]) -> Insert:
        """Not by INSERT IGNORE, which makes warnings of all other errors, too."""
        [first, *_] = table.primary_key.columns
        return mysql.insert(table).values(values).on_duplicate_key_update({first.name: first})

    def upsert(self, table: Table, columns: Sequence[str], rows: Any, key: Sequence[str], guard: str | None) -> Insert:
        """ON DUPLICATE KEY goes by each unique index. Where a row of another key would be replaced, ``guard`` becomes
        NULL, which strict mode refuses."""
        insert = mysql.insert(table).from_select(list(columns), rows)
        # the key stays as it is: said, as a TIMESTAMP that says ON UPDATE would get the current time
        changed: dict[str, Any] = {name: table.c[name] if name in key else insert.inserted[name] for name in columns}
        if guard is not None:
            is_same = and_(*(table.c[name] == insert.inserted[name] for name in key))
            changed[guard] = case((is_same, table.c[guard]), else_=null())
        return insert.on_duplicate_key_update(changed)

    def insert_text(self, table: Table) -> str:
        """The driver sends it as it is, so that a name is quoted here, and no % is doubled."""
        quote = mysql.dialect().identifier_preparer
        names = ", ".join(quote.quote(column.name) for column in table.columns)
        return f"INSERT INTO {quote.format_table(table)} ({names}) VALUES "


def _made_like_none(name: TableName) -> Executable:
    quote = mysql.dialect().identifier_preparer.format_table
    new, none = (quote(known_table(one, [])) for one in (name, TableName(name.schema, f"{name.name}_none")))
    return text(f"CREATE TABLE {new} LIKE {none}".replace(":", "\\:"))


def _is_allowed(connection: Connection, statement: Executable) -> bool:
    """``statement``: one that changes nothing."""
    try:
        connection.execute(statement)
    except DBAPIError as error:
        code = code_of(error.orig)
        if code not in (*_DENIED, *_ABSENT):
            raise
        return code in _ABSENT
    return True
