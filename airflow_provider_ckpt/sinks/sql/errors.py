"""Errors of the SQL sink."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError


class DialectRefusedError(InvalidInputError):
    """The sink does not support this kind of database. Data: where, dialect, advice."""

    template = (
        "{where} leads to a database of kind {dialect!r}, for which a SqlSink is not known to be right: it releases to "
        "MySQL and MariaDB (mysql, mariadb; driver pymysql) and to SQLite (sqlite). {advice}"
    )


class ConnectionSettingRefusedError(InvalidInputError):
    """A connection has a setting that the sink refuses. Data: where, setting, problem."""

    template = "{where} cannot be used by a SqlSink: its setting {setting!r} {problem}"
