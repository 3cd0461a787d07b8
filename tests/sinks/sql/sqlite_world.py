from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.sinks.sql.sqlite_dialect import RollbackOnClose
from tests.sinks.sql.world import Connect, SqlSteps, Watch, World


class SQLiteWorld(World):
    kind = "sqlite"
    schema = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def open(self) -> Any:
        return sqlite3.connect(self.path, isolation_level=None, timeout=60)

    def dying(self, steps: SqlSteps) -> Connect:
        class Cursor(sqlite3.Cursor):
            def execute(self, statement: str, *values: Any) -> Any:
                return steps.step(statement, lambda: super(Cursor, self).execute(statement, *values))

            def executemany(self, statement: str, *values: Any) -> Any:
                return steps.step(statement, lambda: super(Cursor, self).executemany(statement, *values))

        class Dying(RollbackOnClose):
            def cursor(self, *given: Any) -> Any:
                return super().cursor(Cursor)

            def commit(self) -> None:
                steps.step("COMMIT", super().commit)

        return lambda **parameters: sqlite3.connect(**parameters, factory=Dying)

    def losing(self) -> Connect:
        class Losing(RollbackOnClose):
            def commit(self) -> None:
                super().commit()
                raise sqlite3.OperationalError("database is locked")

        return lambda **parameters: sqlite3.connect(**parameters, factory=Losing)

    def watched(self, watch: Watch) -> Connect:
        class Cursor(sqlite3.Cursor):
            def execute(self, statement: str, *values: Any) -> Any:
                watch(statement, self.connection)
                return super().execute(statement, *values)

        class Watched(RollbackOnClose):
            def cursor(self, *given: Any) -> Any:
                return super().cursor(Cursor)

        return lambda **parameters: sqlite3.connect(**parameters, factory=Watched)

    def refusal(self) -> Exception:
        return sqlite3.DatabaseError("not authorized")

    def tables(self) -> list[str]:
        return [row[0] for row in self.run("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
