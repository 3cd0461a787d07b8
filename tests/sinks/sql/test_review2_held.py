"""What was tried in vain: a replacement in a transaction that dies anywhere, and groups in opposite orders."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow
import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.database.errors import DatabaseTableSupersededError
from airflow_provider_ckpt.sinks.sink import Share, SinkInput
from airflow_provider_ckpt.testing.crash import SimulatedCrash
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.test_review2 import setting  # noqa: F401
from tests.sinks.sql.world import Rows, Steps, World, rows_of, stage, staged

NAMES = ("lines", "orders")


def test_two_timestamps_are_staged_with_the_default_of_mariadb_before_10_10(
    maria: MariaDBWorld,
    setting: Any,  # noqa: F811
) -> None:
    maria.table("id int NOT NULL, at timestamp(6) NULL, til timestamp(6) NULL")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("id", "integer"), ("at", "timestamp"), ("til", "timestamp"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [pyarrow.int32(), pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("us", "UTC")]
    stage(sink, Rows([[(1, None, None)]], columns, types=types), 1)


def test_a_replacement_of_two_that_dies_anywhere(world: World) -> None:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    at, number, done = 1, 1, 0
    while True:
        number += 1
        job = f"job{number}"
        before = world.rows("orders")
        sinks = [world.new(job, uid=name, table=name, mode="replace") for name in NAMES]
        handles = [[staged(sink, number)] for sink in sinks]
        steps = Steps(at, "after" if number % 2 else "before")
        dying = [world.bind(job, uid=name, table=name, mode="replace", connect=world.dying(steps)) for name in NAMES]
        shares = [Share(sink, one) for sink, one in zip(dying, handles, strict=True)]
        try:
            dying[0].release_together(shares, 1)
        except SimulatedCrash:
            done += 1
        else:
            break
        assert world.rows("orders") == world.rows("lines")
        assert world.rows("orders") in (before, rows_of(number))
        shares = [Share(sink, one) for sink, one in zip(sinks, handles, strict=True)]
        assert sinks[0].release_together(shares, 1) == [{"rows": 2}] * 2
        assert world.rows("orders") == world.rows("lines") == rows_of(number)
        if number > 2:
            with pytest.raises(DatabaseTableSupersededError):
                world.bind(f"job{number - 1}", uid="orders", table="orders", mode="replace").prepare()
        at += 1
    assert done > 5


def test_groups_in_opposite_orders_and_two_releasers_of_each(world: World) -> None:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    jobs = {}
    for shift, job in enumerate(("x", "y")):
        order = NAMES if shift else NAMES[::-1]
        sinks = [world.new(job, uid=name, table=name) for name in order]
        rounds = [[[staged(sink, 100 * (shift + 1) + number)] for sink in sinks] for number in range(6)]
        jobs[job] = (order, rounds)
    errors: list[BaseException] = []

    def releaser(job: str) -> None:
        order, rounds = jobs[job]
        sinks = [world.bind(job, uid=name, table=name) for name in order]
        for number, handles in enumerate(rounds, 1):
            for _ in range(60):
                try:
                    sinks[0].release_together([Share(s, h) for s, h in zip(sinks, handles, strict=True)], number)
                    break
                except CkptError as error:
                    if not error.retryable:
                        errors.append(error)
                        return
            else:
                errors.append(RuntimeError("never"))

    threads = [threading.Thread(target=releaser, args=(job,)) for job in jobs for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    expected = rows_of(*range(100, 106), *range(200, 206))
    assert world.rows("orders") == world.rows("lines") == expected
    assert world.staging_tables() == 0
