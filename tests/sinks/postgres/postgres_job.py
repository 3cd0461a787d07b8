from __future__ import annotations

from pathlib import Path

from tests.sinks.database_job import DatabaseJob
from tests.sinks.postgres.world import PASSWORD, World


class PostgresJob(DatabaseJob):
    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(folder, PASSWORD)
        self.world = world

    @property
    def uri(self) -> str:
        return self.world.url

    def sink(self, **given: object) -> str:
        table, staging = self.world.named("orders"), self.world.staging
        return f'PostgresSink({table!r}, conn_id="shop_db", staging_schema={staging!r}, **{given!r})'

    def is_made(self) -> bool:
        return bool(self.world.run("SELECT to_regclass(%s)", f'"{self.world.schema}".orders')[0][0])

    def ids(self) -> list[int]:
        return [row[0] for row in self.world.run(f'SELECT id FROM "{self.world.schema}".orders ORDER BY id')]
