"""Upserts into tables with unique indexes besides the key's: no row of another key is replaced."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import Rows, World

UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}
EMAILS = "id int NOT NULL PRIMARY KEY, city varchar(50) UNIQUE"
REFUSED = r"a unique index that is not the key of the upsert refuses a row|UNIQUE constraint failed: orders\.city"


def test_an_upsert_by_a_business_key_works_beside_an_auto_increment_key(world: World) -> None:
    number = "nr INTEGER PRIMARY KEY" if world.kind == "sqlite" else "nr bigint NOT NULL AUTO_INCREMENT PRIMARY KEY"
    sink = world.table(f"{number}, id int NOT NULL UNIQUE, city varchar(50)").new(**UPSERT)
    sink.release([stage(sink, Rows([[(7, "a"), (8, "b"), (8, "c")]]), 1)], 1)
    first = world.rows()
    assert [row[1:] for row in first] == [(7, "a"), (8, "c")]
    sink.release([stage(sink, Rows([[(8, "d"), (9, "e")]]), 2)], 2)
    assert world.rows()[:2] == [first[0], (first[1][0], 8, "d")]
    assert world.rows()[2][1:] == (9, "e")


def test_a_row_of_another_key_is_never_replaced(world: World) -> None:
    sink = world.table(EMAILS).new(**UPSERT)
    world.put((1, "a"), (2, "b"))
    handle = stage(sink, Rows([[(3, "c"), (4, "a")]]), 1)
    with pytest.raises(ReleaseRefusedError, match=REFUSED) as raised:
        sink.release([handle], 1)
    assert world.kind == "sqlite" or "(unique indexes: city, PRIMARY)" in str(raised.value)
    assert (world.rows(), world.staged(), sink.last_released()) == ([(1, "a"), (2, "b")], [handle["id"]], 0)
    world.run(f"DELETE FROM {world.schema}orders WHERE id = 1")
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == [(2, "b"), (3, "c"), (4, "a")]


def test_an_update_that_violates_another_unique_index_is_refused(world: World) -> None:
    sink = world.table(EMAILS).new(**UPSERT)
    world.put((1, "a"), (2, "b"))
    with pytest.raises(
        ReleaseRefusedError, match=r"error 1062, IntegrityError, city, UNIQUE \(city\)|UNIQUE constraint"
    ):
        sink.release([stage(sink, Rows([[(1, "b")]]), 1)], 1)
    assert world.rows() == [(1, "a"), (2, "b")]


def test_an_unchanged_row_does_not_violate_its_own_unique_index(world: World) -> None:
    sink = world.table(EMAILS).new(**UPSERT)
    world.put((1, "a"), (2, "b"))
    sink.release([stage(sink, Rows([[(1, "a"), (2, "c")]]), 1)], 1)
    assert world.rows() == [(1, "a"), (2, "c")]


def test_all_columns_of_a_key_are_compared(world: World) -> None:
    """The first column of the key, which guards it, is the same in both rows."""
    columns = (("id", "integer"), ("nr", "integer"), ("city", "string"))
    world.table("id int NOT NULL, nr int NOT NULL, city varchar(50) UNIQUE, PRIMARY KEY (id, nr)")
    sink = world.bind(mode="upsert", key=["id", "nr"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    world.put((1, 1, "a"))
    with pytest.raises(ReleaseRefusedError, match=REFUSED):
        sink.release([stage(sink, Rows([[(1, 2, "a")]], columns), 1)], 1)
    assert world.rows() == [(1, 1, "a")]
    sink.release([stage(sink, Rows([[(1, 1, "b")]], columns), 2)], 2)
    assert world.rows() == [(1, 1, "b")]


def test_texts_that_a_collation_treats_as_equal_are_one_key(world: World) -> None:
    collation = "NOCASE" if world.kind == "sqlite" else "utf8mb4_general_ci"
    columns = (("city", "string"), ("id", "integer"))
    world.table(f"city varchar(20) COLLATE {collation} NOT NULL PRIMARY KEY, id int NOT NULL UNIQUE")
    sink = world.bind(mode="upsert", key=["city"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    for number, (city, value) in enumerate((("a", 1), ("A", 2)), 1):
        sink.release([stage(sink, Rows([[(city, value)]], columns), number)], number)
    assert world.rows() == [("a", 2)]


def test_a_key_of_only_timestamps_is_refused_with_another_unique_index(maria: MariaDBWorld) -> None:
    """MariaDB may make the current time of a NULL in a TIMESTAMP, so that such a column guards nothing."""
    columns = (("at", "timestamp"), ("id", "integer"))
    maria.table("at timestamp(6) NOT NULL DEFAULT current_timestamp(6) PRIMARY KEY, id int UNIQUE")
    with pytest.raises(TargetRefusedError, match="its key has only TIMESTAMP columns, and it has another unique index"):
        maria.bind(mode="upsert", key=["at"]).check_rows(SinkInput("lake", columns))
