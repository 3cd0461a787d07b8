"""Sentences for PostgreSQL's refusals at a release. None shows a value of a row."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, RowsRefusedError
from tests.sinks.databases import rows_of, stage
from tests.sinks.postgres.world import Rows, World, staged

SECRET = "t0p s3cr3t"
ROWS = [[(2147483647, SECRET)]]
PARTED = "id int NOT NULL, city text) PARTITION BY RANGE (id"


def refused(world: World, *after: str, rows: Any = ROWS, **given: Any) -> str:
    """Return the error of a release. Another client runs the statements ``after`` the rows are staged."""
    sink = world.new(**given)
    handle = stage(sink, Rows(rows), 1)
    before = world.rows()
    for statement in after:
        world.run(statement)
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as raised:
        sink.release([handle], 1)
    assert (world.rows(), world.staged(), sink.last_released()) == (before, [handle["id"]], 0)
    whole = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert SECRET not in whole
    assert "2147483647" not in whole
    return str(raised.value)


def add_trigger(world: World, body: str) -> None:
    orders, function = world.named("orders"), world.named("picky")
    world.run(f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n{body} RETURN NEW; END $$")
    world.run(f"CREATE TRIGGER picky BEFORE INSERT ON {orders} FOR EACH ROW EXECUTE FUNCTION {function}()")


def test_a_missing_partition_is_explained(world: World) -> None:
    orders, low = world.table(PARTED).named("orders"), world.named("low")
    world.run(f"CREATE TABLE {low} PARTITION OF {orders} FOR VALUES FROM (0) TO (10)")
    error = refused(world)
    assert "no partition of orders takes a row (SQLSTATE 23514, CheckViolation, table orders, PARTITION BY " in error
    assert f"RANGE (id), partitions: {low}). Create it, or CREATE TABLE … PARTITION OF orders DEFAULT. Noth" in error
    world.run(f"CREATE TABLE {world.named('rest')} PARTITION OF {orders} DEFAULT")
    bound = world.bind()
    bound.release([staged(bound, 1)], 1)
    assert world.rows() == rows_of(1)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("PRIMARY KEY (city, id)", "constraint orders_pkey, table orders, PRIMARY KEY (city, id)). Delete one of the"),
        ("CONSTRAINT by_city UNIQUE (city)", "constraint by_city, table orders, UNIQUE (city))"),
    ],
)
def test_a_duplicate_key_is_explained(world: World, key: str, message: str) -> None:
    world.table(f"id int NOT NULL, city text NOT NULL, {key}")
    world.run(f"INSERT INTO {world.named('orders')} VALUES (%s, %s)", *ROWS[0][0])
    error = refused(world)
    assert "a row has the key of a row that is there, or of another row of the checkpoint (SQLSTATE 23505" in error
    assert message in error


def test_a_unique_expression_index_is_explained(world: World) -> None:
    world.table()
    world.run(f"CREATE UNIQUE INDEX low ON {world.named('orders')} (lower(city))")
    world.run(f"INSERT INTO {world.named('orders')} VALUES (1, %s)", SECRET.upper())
    assert "constraint low, table orders, CREATE UNIQUE INDEX low ON" in refused(world)


def test_a_violated_foreign_key_is_explained(world: World) -> None:
    world.run(f"CREATE TABLE {world.named('cities')} (name text PRIMARY KEY)")
    world.table(f"id int, city text CONSTRAINT known_city REFERENCES {world.named('cities')}")
    error = refused(world)
    assert "a row refers to a row that is not there" in error
    assert "constraint known_city, table orders, FOREIGN KEY (city) REFERENCES" in error


def test_a_check_added_after_stage_is_explained(world: World) -> None:
    add = f"ALTER TABLE {world.table().named('orders')} ADD CONSTRAINT small CHECK (id < 100)"
    assert "constraint small, table orders, CHECK ((id < 100)))" in refused(world, add)


def test_a_check_violated_during_stage_is_explained(world: World) -> None:
    sink = world.table("id int, city text CONSTRAINT short CHECK (length(city) < 3)").new()
    with pytest.raises(RowsRefusedError, match=r"of this batch: a row violates a CHECK \(SQLSTATE 23514.* short\)"):
        stage(sink, Rows(ROWS), 1)


def test_an_out_of_range_generated_column_is_explained(world: World) -> None:
    world.table("id int, city text, far int GENERATED ALWAYS AS (id * 2) STORED")
    assert "a number is out of range for a column, a generated column or a trigger of the table" in refused(world)


def test_the_message_of_a_trigger_is_shown(world: World) -> None:
    add_trigger(world.table(), "RAISE EXCEPTION 'the shop''s 100%% closed';")
    error = refused(world)
    assert "a trigger refuses a row: the shop's 100% closed (SQLSTATE P0001, RaiseException, function " in error
    assert "picky(), line 2)" in error


@pytest.mark.parametrize("code", ["P0001", "23505", "42501", "0A000"])
def test_a_triggers_message_with_a_value_is_not_shown(world: World, code: str) -> None:
    """A trigger may choose the code of an error whose message the sink shows if it is the server's."""
    more = f"ERRCODE = '{code}', CONSTRAINT = NEW.city, COLUMN = NEW.city, TABLE = NEW.city"
    add_trigger(world.table(), f"RAISE EXCEPTION 'no %', NEW.city USING {more};")
    error = refused(world)
    assert f"a trigger refuses a row (SQLSTATE {code}, " in error
    assert "picky(), line 2). Its message may hold values of the row: the server's log has it" in error


def test_an_error_inside_a_trigger_names_the_function(world: World) -> None:
    add_trigger(world.table(), "NEW.id = 1 / (NEW.id - 2147483647);")
    assert "SQLSTATE 22012, DivisionByZero, function " in refused(world)


def test_a_problem_of_the_table_is_explained_with_advice(world: World) -> None:
    error = refused(world.table(), f"ALTER TABLE {world.named('orders')} ADD day date NOT NULL")
    assert (
        "its column 'day' is NOT NULL and has no default, and the job has no such column. Select it, too. Noth" in error
    )
