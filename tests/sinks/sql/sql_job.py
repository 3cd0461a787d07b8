from __future__ import annotations

from pathlib import Path

from tests.sinks.database_job import DatabaseJob
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import World
from tests.support.mariadb import PASSWORD


class SqlJob(DatabaseJob):
    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(folder, PASSWORD)
        self.world = world

    @property
    def uri(self) -> str:
        if isinstance(self.world, MariaDBWorld):
            return self.world.url.replace("mysql+pymysql", "mysql")
        return (
            self.world.url.replace("sqlite:///", "sqlite://", 1)
            .replace("//", "@", 1)
            .replace("/", "%2F")
            .replace("@", "//")
        )

    def sink(self, **given: object) -> str:
        return f'SqlSink("orders", conn_id="shop_db", **{given!r})'

    def ids(self) -> list[int]:
        return [row[0] for row in self.world.run(f"SELECT id FROM {self.world.schema}orders ORDER BY id")]
