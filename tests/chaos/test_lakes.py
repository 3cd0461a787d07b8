"""A whole job that writes a Delta table, an Iceberg table and a folder: killed, run again, drained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.chaos.data import Feeder
from tests.chaos.ending import wait_for_all
from tests.chaos.released import rows
from tests.chaos.world import Variant, World
from tests.lakes.warehouse import Warehouse

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

LAKES = Variant("lakes", "lakes.py", ("out",))


@pytest.mark.parametrize("kills", [2])
def test_each_row_is_once_in_every_table_after_kills(tmp_path: Path, kills: int) -> None:
    with World(tmp_path, LAKES, history_files=6) as world:
        warehouse = Warehouse(tmp_path)
        with Feeder(world.data):
            for number in range(kills):
                driver = world.start()
                driver.wait_for("released", count=2 + number)
                driver.kill("all")
                driver.wait()
            driver = world.start()
            driver.wait_for("released", count=4)
        wait_for_all(world)
        world.drain()
        assert driver.wait() == 0, driver.tail()
        wanted = sorted(world.data.ids)
        readers: dict[str, Callable[[], list[int]]] = {
            "out": lambda: [row["id"] for row in rows(world, "out")],
            "delta": lambda: DeltaTable(tmp_path / "delta").to_pyarrow_table()["id"].to_pylist(),
            "iceberg": lambda: warehouse.table().scan().to_arrow()["id"].to_pylist(),
        }
        assert {sink: sorted(read()) for sink, read in readers.items()} == dict.fromkeys(readers, wanted)
        assert world.state().epoch == kills + 1
