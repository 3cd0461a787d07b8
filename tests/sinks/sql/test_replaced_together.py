"""Tables that are replaced in one transaction."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.sinks.errors import OutputSupersededError
from airflow_provider_ckpt.sinks.sink import ReleaseParticipant
from airflow_provider_ckpt.testing.crash import SimulatedCrash
from tests.sinks.databases import rows_of
from tests.sinks.sql.world import SqlSteps, World, staged

NAMES = ("lines", "orders")


def test_tables_with_a_foreign_key_are_replaced_together(world: World) -> None:
    inno = " ENGINE=InnoDB" if world.kind == "mysql" else ""
    world.run(f"CREATE TABLE {world.schema}orders (id int NOT NULL PRIMARY KEY, city varchar(99)){inno}")
    world.run(
        f"CREATE TABLE {world.schema}lines (id int NOT NULL PRIMARY KEY, city varchar(99), "
        f"FOREIGN KEY (id) REFERENCES {'orders'} (id)){inno}"
    )
    for number, job in enumerate(("monday", "tuesday"), 1):
        sinks = [world.new(job, uid=name, table=name, mode="replace") for name in ("orders", "lines")]
        participants = [ReleaseParticipant(sink, [staged(sink, number)]) for sink in sinks]
        sinks[0].release_together(participants, 1)
    assert world.rows("orders") == world.rows("lines") == rows_of(2)


@pytest.mark.slow
def test_r9_a_crashed_replacement_of_two_tables_is_in_both_or_neither(world: World) -> None:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    at, number, done = 1, 1, 0
    while True:
        number += 1
        job = f"job{number}"
        before = world.rows("orders")
        sinks = [world.new(job, uid=name, table=name, mode="replace") for name in NAMES]
        handles = [[staged(sink, number)] for sink in sinks]
        steps = SqlSteps(at, "after" if number % 2 else "before")
        dying = [world.bind(job, uid=name, table=name, mode="replace", connect=world.dying(steps)) for name in NAMES]
        participants = [
            ReleaseParticipant(sink, sink_handles) for sink, sink_handles in zip(dying, handles, strict=True)
        ]
        try:
            dying[0].release_together(participants, 1)
        except SimulatedCrash:
            done += 1
        else:
            break
        assert world.rows("orders") == world.rows("lines")
        assert world.rows("orders") in (before, rows_of(number))
        participants = [
            ReleaseParticipant(sink, sink_handles) for sink, sink_handles in zip(sinks, handles, strict=True)
        ]
        assert sinks[0].release_together(participants, 1) == [{"rows": 2}] * 2
        assert world.rows("orders") == world.rows("lines") == rows_of(number)
        if number > 2:
            with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
                world.bind(f"job{number - 1}", uid="orders", table="orders", mode="replace").prepare()
        at += 1
    assert done > 5
