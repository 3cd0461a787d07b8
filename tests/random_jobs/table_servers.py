"""Tables of PostgreSQL and MariaDB for random jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from airflow_provider_ckpt.sinks.sink import Sink
from tests.random_jobs.table_cases import TableCase
from tests.random_jobs.table_targets import SqlTarget
from tests.sinks.postgres.world import World as PostgresWorld
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL


class PostgresTarget(SqlTarget):
    def __init__(self, case: TableCase, server: PostgreSQL) -> None:
        super().__init__(case)
        self._world = PostgresWorld(server, f"shop {case.seed}", f"ckpt {case.seed}")
        self.quoted, self.audit = (self._world.named(name) for name in ("orders", "audit"))
        self._function = self._world.named("act")

    def sink(self) -> Sink:
        return self._world.sink(mode=self.case.mode, **self.key)

    def make(self) -> None:
        self.run(f'CREATE SCHEMA "{self._world.schema}"')
        super().make()

    def run(self, statement: str) -> list[Any]:
        return self._world.run(statement)

    @contextmanager
    def at_once(self) -> Iterator[Callable[[str], list[Any]]]:
        with psycopg.connect(self._world.url) as connection:
            connection.execute(f"LOCK TABLE {self.quoted} IN ACCESS EXCLUSIVE MODE".encode())

            def run(statement: str) -> list[Any]:
                cursor = connection.execute(statement.encode())
                return list(cursor.fetchall()) if cursor.description else []

            yield run

    def add_trigger(self) -> None:
        acts = {
            "audits": (f"INSERT INTO {self.audit} VALUES (NEW.id, NEW.v); RETURN NEW", "AFTER INSERT OR UPDATE"),
            "swallows": (f"IF NEW.id = {self.case.bad} THEN RETURN NULL; END IF; RETURN NEW", "BEFORE INSERT"),
            "keeps": ("RETURN NULL", "BEFORE DELETE"),
        }
        if self.case.trigger == "rule":
            self.run(f"CREATE RULE stops AS ON INSERT TO {self.quoted} DO INSTEAD NOTHING")
        if self.case.trigger in acts:
            body, when = acts[self.case.trigger]
            name = "audits" if self.case.trigger == "audits" else "stops"
            self.run(
                f"CREATE FUNCTION {self._function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$; "
                f"CREATE TRIGGER {name} {when} ON {self.quoted} FOR EACH ROW EXECUTE FUNCTION {self._function}()"
            )

    def drop_trigger(self) -> None:
        self.run(f"DROP RULE IF EXISTS stops ON {self.quoted}")
        self.run(f"DROP TRIGGER IF EXISTS stops ON {self.quoted}")

    def _has_v(self) -> bool:
        asked = "SELECT 1 FROM information_schema.columns WHERE table_name = 'orders' AND column_name = 'v'"
        return bool(self.run(f"{asked} AND table_schema = '{self._world.schema}'"))


class MariaDBTarget(SqlTarget):
    def __init__(self, case: TableCase, server: MariaDB) -> None:
        super().__init__(case)
        self._world = MariaDBWorld(server, f"shop {case.seed}")
        self.quoted, self.audit = (f"{self._world.schema}{name}" for name in ("orders", "audit"))

    def sink(self) -> Sink:
        return self._world.sink(mode=self.case.mode, **self.key)

    def run(self, statement: str) -> list[Any]:
        return self._world.run(statement)

    @contextmanager
    def at_once(self) -> Iterator[Callable[[str], list[Any]]]:
        with closing(self._world.open()) as connection:
            cursor = connection.cursor()

            def run(statement: str) -> list[Any]:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []

            run(f"LOCK TABLES {self.quoted} WRITE, {self.audit} WRITE")
            yield run
            run("UNLOCK TABLES")

    def add_trigger(self) -> None:
        name = self._world.schema
        if self.case.trigger == "audits":
            for when in ("INSERT", "UPDATE"):
                act = f"INSERT INTO {self.audit} VALUES (NEW.id, NEW.v)"
                self.run(f"CREATE TRIGGER {name}a_{when} AFTER {when} ON {self.quoted} FOR EACH ROW {act}")
        if self.case.trigger == "refuses":
            act = f"IF NEW.id = {self.case.bad} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'; END IF"
            self.run(f"CREATE TRIGGER {name}stops BEFORE INSERT ON {self.quoted} FOR EACH ROW BEGIN {act}; END")

    def drop_trigger(self) -> None:
        self.run(f"DROP TRIGGER IF EXISTS {self._world.schema}stops")

    def _has_v(self) -> bool:
        return any(row[0] == "v" for row in self.run(f"SHOW COLUMNS FROM {self.quoted}"))
