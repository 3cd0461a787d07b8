"""The databases that a SqlSink supports, by their names in SQLAlchemy and Airflow."""

from __future__ import annotations

from typing import Literal

from airflow_provider_ckpt.sinks.errors import InvalidSinkError

Kind = Literal["mysql", "sqlite"]
_KINDS: dict[str, Kind] = {
    "mysql": "mysql",
    "mysql+pymysql": "mysql",
    "mariadb": "mysql",
    "mariadb+pymysql": "mysql",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}


def kind_of(name: str) -> Kind | None:
    """Return the kind for a database's name in a URL or connection; None if unsupported. MariaDB's is ``mysql``."""
    return _KINDS.get(name)


def refused_dialect(source: str, dialect: str) -> InvalidSinkError:
    is_postgres = dialect.partition("+")[0] in ("postgres", "postgresql")
    advice = "For PostgreSQL there is PostgresSink." if is_postgres else "A sink of your own can do it (docs/sinks.md)."
    return InvalidSinkError(
        "{where} leads to a database of kind {dialect!r}, for which a SqlSink is not known to be right: it releases "
        "to MySQL and MariaDB (mysql, mariadb; driver pymysql) and to SQLite (sqlite). {advice}",
        where=source,
        dialect=dialect,
        advice=advice,
    )
