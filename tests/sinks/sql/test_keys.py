"""Rows that share a key. An upsert changes no column of the key."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.sinks.errors import TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.timestamps import WINDOW, upsert_one_key
from tests.sinks.sql.world import Rows, World


def test_a_timestamp_key_with_on_update_is_not_changed_by_an_upsert(maria: MariaDBWorld) -> None:
    maria.table(
        "at timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6) PRIMARY KEY, "
        "city varchar(99)"
    )
    assert upsert_one_key(maria) == [(WINDOW.replace(tzinfo=None), "three")]


def test_the_last_row_wins_among_keys_that_a_collation_treats_as_equal(
    world: World,
) -> None:
    collation = "NOCASE" if world.kind == "sqlite" else "utf8mb4_general_ci"
    kind = "text" if world.kind == "sqlite" else "varchar(20)"
    world.table(f"city {kind} COLLATE {collation} NOT NULL PRIMARY KEY, id int NOT NULL")
    columns = (("city", "string"), ("id", "integer"))
    sink = world.bind(mode="upsert", key=["city"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    sink.release([stage(sink, Rows([[("a", 1), ("A", 2)]], columns), 1)], 1)
    assert [row[1] for row in world.rows()] == [2]


def test_an_update_does_not_change_the_key(world: World) -> None:
    """Rows of other tables may refer to it."""
    collation = "text COLLATE NOCASE" if world.kind == "sqlite" else "varchar(20) COLLATE utf8mb4_general_ci"
    world.table(f"city {collation} NOT NULL PRIMARY KEY, id int NOT NULL")
    columns = (("city", "string"), ("id", "integer"))
    sink = world.bind(mode="upsert", key=["city"])
    sink.prepare()
    for number, city in enumerate(("a", "A"), 1):
        sink.release([stage(sink, Rows([[(city, number)]], columns), number)], number)
    assert world.rows() == [("a", 2)]


def test_sqlite_keys_may_have_the_collation_rtrim(lite: SQLiteWorld) -> None:
    lite.table("city text COLLATE RTRIM NOT NULL PRIMARY KEY, id int NOT NULL")
    columns = (("city", "string"), ("id", "integer"))
    sink = lite.bind(mode="upsert", key=["city"])
    sink.prepare()
    sink.release([stage(sink, Rows([[("a ", 1), ("a", 2)]], columns), 1)], 1)
    assert [row[1] for row in lite.rows()] == [2]


def test_a_sqlite_index_may_have_its_own_collation(lite: SQLiteWorld) -> None:
    lite.table("city text NOT NULL, id int NOT NULL, UNIQUE (id, city COLLATE NOCASE)")
    columns = (("city", "string"), ("id", "integer"))
    sink = lite.bind(mode="upsert", key=["city", "id"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    sink.release([stage(sink, Rows([[("a", 1), ("A", 1), ("a", 2)]], columns), 1)], 1)
    assert lite.rows() == [("A", 1), ("a", 2)]


def test_sqlite_indexes_with_different_collations_for_a_key_are_refused(lite: SQLiteWorld) -> None:
    lite.table("city text NOT NULL PRIMARY KEY, id int NOT NULL")
    lite.run("CREATE UNIQUE INDEX one ON orders (city COLLATE NOCASE)")
    columns = (("city", "string"), ("id", "integer"))
    with pytest.raises(TargetRefusedError, match="not two that compare in different ways"):
        lite.bind(mode="upsert", key=["city"]).check_rows(SinkInput("lake", columns))


def test_a_created_table_distinguishes_keys_by_trailing_blanks(world: World) -> None:
    """docs: a table made by create=True keeps such keys apart."""
    columns = (("city", "string"), ("id", "integer"))
    sink = world.bind(mode="upsert", key=["city"], create=True)
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    sink.release([stage(sink, Rows([[("a", 1), ("a ", 2)]], columns), 1)], 1)
    assert world.rows() == [("a", 1), ("a ", 2)]
