"""What a hostile review has found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow
import pytest

from airflow_provider_ckpt.sinks.database.errors import (
    DatabaseUnreachableError,
    ReleaseRefusedError,
    RowsRefusedError,
    TableMismatchError,
)
from airflow_provider_ckpt.sinks.sink import Share, SinkInput
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import Rows, World, rows_of, stage, staged


@pytest.fixture
def setting(maria: MariaDBWorld) -> Iterator[Any]:
    undo = []

    def change(name: str, value: str) -> None:
        [(before,)] = maria.run(f"SELECT @@global.{name}")
        undo.append((name, before))
        maria.run(f"SET GLOBAL {name} = {value}")

    yield change
    for name, before in undo:
        maria.run(f"SET GLOBAL {name} = {before}")


def test_a_null_of_a_timestamp_is_null_with_the_default_of_mariadb_before_10_10(
    maria: MariaDBWorld, setting: Any
) -> None:
    maria.table("id int NOT NULL, at timestamp(6) NULL")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("id", "integer"), ("at", "timestamp"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [pyarrow.int32(), pyarrow.timestamp("us", "UTC")]
    handle = stage(sink, Rows([[(1, None)]], columns, types=types), 1)
    sink.release([handle], 1)
    assert maria.rows() == [(1, None)]


@pytest.mark.parametrize("check", ["city regexp '^[[:alpha:]]'", "city <> ':none'", "city like 'c%'", r"city <> 'a\\:b'"])
def test_rows_are_staged_whatever_a_check_of_the_table_says(maria: MariaDBWorld, check: str) -> None:
    maria.table(f"id int NOT NULL, city varchar(99), CHECK ({check})")
    sink = maria.new()
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


def test_safe_updates_of_the_server_keep_no_table_from_being_replaced(maria: MariaDBWorld, setting: Any) -> None:
    maria.table()
    maria.put((1, "old"))
    setting("sql_safe_updates", "1")
    sink = maria.new(mode="replace")
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


def test_safe_updates_of_the_server_keep_no_table_from_upserts(maria: MariaDBWorld, setting: Any) -> None:
    maria.table("id int NOT NULL PRIMARY KEY, city text")
    setting("sql_safe_updates", "1")
    sink = maria.new(mode="upsert", key=["id"])
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


def test_of_one_key_of_a_batch_the_last_row_counts_also_if_its_collation_says_that_it_is_one(
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


def test_an_index_with_a_collation_of_its_own_is_refused_before_rows_are_staged(lite: SQLiteWorld) -> None:
    lite.table("city text NOT NULL, id int NOT NULL")
    lite.run("CREATE UNIQUE INDEX one ON orders (city COLLATE NOCASE)")
    columns = (("city", "string"), ("id", "integer"))
    sink = lite.bind(mode="upsert", key=["city"])
    try:
        sink.check_rows(SinkInput("lake", columns))
    except TableMismatchError:
        return
    sink.prepare()
    sink.release([stage(sink, Rows([[("a", 1)]], columns), 1)], 1)


@pytest.mark.parametrize("name", ["disks", "unlocked_doors"])
def test_a_constraint_is_fatal_whatever_the_table_is_called(lite: SQLiteWorld, name: str) -> None:
    lite.table("id int NOT NULL PRIMARY KEY, city text", name)
    lite.run(f"INSERT INTO {name} VALUES (10, 'there')")
    sink = lite.new(table=name)
    handle = staged(sink, 1)
    with pytest.raises(ReleaseRefusedError):
        sink.release([handle], 1)


def test_a_check_of_sqlite_is_fatal_whatever_it_says(lite: SQLiteWorld) -> None:
    lite.table("id int NOT NULL, city text, CONSTRAINT locked_city CHECK (city <> 'city 10')")
    sink = lite.new()
    handle = staged(sink, 1)
    with pytest.raises((ReleaseRefusedError, RowsRefusedError)):
        sink.release([handle], 1)


def test_tables_that_refer_to_each_other_are_replaced_together(world: World) -> None:
    inno = " ENGINE=InnoDB" if world.kind == "mysql" else ""
    world.run(f"CREATE TABLE {world.schema}orders (id int NOT NULL PRIMARY KEY, city varchar(99)){inno}")
    world.run(
        f"CREATE TABLE {world.schema}lines (id int NOT NULL PRIMARY KEY, city varchar(99), "
        f"FOREIGN KEY (id) REFERENCES {'orders'} (id)){inno}"
    )
    for number, job in enumerate(("monday", "tuesday"), 1):
        sinks = [world.new(job, uid=name, table=name, mode="replace") for name in ("orders", "lines")]
        shares = [Share(sink, [staged(sink, number)]) for sink in sinks]
        sinks[0].release_together(shares, 1)
    assert world.rows("orders") == world.rows("lines") == rows_of(2)


def test_keys_that_differ_in_blanks_at_the_end_are_two_in_a_table_that_the_sink_makes(world: World) -> None:
    """docs: a table that create=True makes tells them apart."""
    columns = (("city", "string"), ("id", "integer"))
    sink = world.bind(mode="upsert", key=["city"], create=True)
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    sink.release([stage(sink, Rows([[("a", 1), ("a ", 2)]], columns), 1)], 1)
    assert world.rows() == [("a", 1), ("a ", 2)]


def test_a_release_that_a_gate_held_for_long_has_any_number_of_batches(maria: MariaDBWorld, setting: Any) -> None:
    setting("max_allowed_packet", "1048576")
    maria.table()
    sink = maria.new()
    one = staged(sink, 1)
    gone = [{**one, "id": f"{'a' * 60}-{number}-n1"} for number in range(15_000)]
    released = ", ".join(f"('orders', 'lake', '{handle['id']}', 1)" for handle in gone[:7000])
    maria.run(f"INSERT INTO {maria.schema}ckpt_released VALUES {released}")
    released = ", ".join(f"('orders', 'lake', '{handle['id']}', 1)" for handle in gone[7000:])
    maria.run(f"INSERT INTO {maria.schema}ckpt_released VALUES {released}")
    assert sink.release([*gone, one], 2) == {"rows": 2}


def test_drop_right_is_not_missed_when_the_release_is_done(maria: MariaDBWorld) -> None:
    with suppress(Exception):
        maria.run("DROP USER poor")
    maria.table()
    maria.run("CREATE USER poor IDENTIFIED BY 'pooooor'")
    maria.run(f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {maria.schema}* TO poor")
    sink = maria.new(url=maria.url.replace("airflow:", "poor:").replace("s3cr3tPW", "pooooor"))
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}


def test_empty_batches_with_a_null_type(world: World) -> None:
    world.table()
    sink = world.new()
    handle = stage(sink, Rows([[]]), 1)
    assert (handle["rows"], world.staging_tables()) == (0, 0)
    with suppress(DatabaseUnreachableError):
        sink.release([handle], 1)
