from __future__ import annotations

from typing import Any

import pymysql

from tests.sinks.sql.world import Connect, SqlSteps, Watch, World
from tests.support.mariadb import PASSWORD, MariaDB


class MariaDBWorld(World):
    kind = "mysql"

    def __init__(self, server: MariaDB, database: str) -> None:
        self.server, self.database, self.schema = server, database, f"`{database}`."
        self.run(f"CREATE DATABASE `{database}` CHARACTER SET utf8mb4")

    @property
    def url(self) -> str:
        database = self.database.replace(" ", "%20")
        return f"mysql+pymysql://airflow:{PASSWORD}@127.0.0.1:{self.server.port}/{database}?ssl_disabled=true"

    def open(self) -> Any:
        return self.server.connect(init_command="SET SESSION time_zone = '+00:00'")

    def dying(self, steps: SqlSteps) -> Connect:
        class Dying(pymysql.connections.Connection):  # type: ignore[misc]
            def query(self, statement: Any, unbuffered: bool = False) -> Any:
                text = statement if isinstance(statement, str) else statement.decode()
                return steps.step(text, lambda: super(Dying, self).query(statement, unbuffered))

            def commit(self) -> None:
                steps.step("COMMIT", super().commit)

        return Dying

    def losing(self) -> Connect:
        class Losing(pymysql.connections.Connection):  # type: ignore[misc]
            def commit(self) -> None:
                super().commit()
                raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

        return Losing

    def watched(self, watch: Watch) -> Connect:
        class Watched(pymysql.connections.Connection):  # type: ignore[misc]
            def query(self, statement: Any, unbuffered: bool = False) -> Any:
                watch(statement if isinstance(statement, str) else statement.decode(), self)
                return super().query(statement, unbuffered)

        return Watched

    def refusal(self) -> Exception:
        error: Exception = pymysql.err.OperationalError(1142, "DROP command denied to user 'airflow'@'localhost'")
        return error

    def tables(self) -> list[str]:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"
        return [row[0] for row in self.run(query, self.database)]
