"""Sentences for MariaDB's refusals at a release. None shows a value of a row."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError
from tests.sinks.databases import rows_of, stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import Rows, World

SECRET = "t0p s3cr3t"
ROWS = [[(2147483647, SECRET)]]
PARTED = "id int NOT NULL, city varchar(50)) PARTITION BY RANGE (id) ("
PICKY = "BEFORE INSERT ON {orders} FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the shop''s closed'"


def refused(maria: World, *after: str, rows: Any = ROWS, **given: Any) -> str:
    """Return the error of a release. Another client runs the statements ``after`` the rows are staged."""
    sink = maria.new(**given)
    handle = stage(sink, Rows(rows), 1)
    before = maria.rows()
    for statement in after:
        maria.run(statement)
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as raised:
        sink.release([handle], 1)
    assert (maria.rows(), maria.staged(), sink.last_released()) == (before, [handle["id"]], 0)
    whole = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert SECRET not in whole
    assert "2147483647" not in whole
    return str(raised.value)


def test_a_missing_partition_is_explained(maria: MariaDBWorld) -> None:
    maria.table(PARTED + "PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (20)")
    error = refused(maria)
    assert (
        "no partition takes a row (error 1526, OperationalError, PARTITION BY RANGE (`id`), partitions: low 10, "
        "high 20). ALTER TABLE … ADD PARTITION. Nothing of it is visible" in error
    )
    maria.run(f"ALTER TABLE {maria.schema}orders ADD PARTITION (PARTITION rest VALUES LESS THAN MAXVALUE)")
    bound = maria.bind()
    bound.release([stage(bound, Rows([rows_of(1)]), 2)], 1)
    assert maria.rows() == rows_of(1)


def test_an_error_names_the_first_and_last_of_many_partitions(maria: MariaDBWorld) -> None:
    maria.table(PARTED + ", ".join(f"PARTITION p{number} VALUES LESS THAN ({number})" for number in range(1, 9)))
    assert "partitions: p1 1, p2 2, …, p7 7, p8 8)" in refused(maria)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("PRIMARY KEY (city, id)", "error 1062, IntegrityError, PRIMARY, UNIQUE (city, id)). Delete one of the two"),
        ("UNIQUE by_city (city)", "error 1062, IntegrityError, by_city, UNIQUE (city))"),
    ],
)
def test_a_duplicate_key_is_explained(maria: MariaDBWorld, key: str, message: str) -> None:
    maria.table(f"id int NOT NULL, city varchar(50) NOT NULL, {key}")
    maria.put(*ROWS[0])
    error = refused(maria)
    assert "cannot be released to table " in error
    assert f".orders: a row has the key of a row that is there, or of another row of the checkpoint ({message}" in error


def test_a_violated_foreign_key_is_explained(maria: MariaDBWorld) -> None:
    maria.run(f"CREATE TABLE {maria.schema}cities (name varchar(50) PRIMARY KEY)")
    maria.table(
        "id int NOT NULL, city varchar(50), "
        f"CONSTRAINT known_city FOREIGN KEY (city) REFERENCES {maria.schema}cities (name)"
    )
    error = refused(maria)
    assert "a row refers to a row that is not there" in error
    assert "error 1452, IntegrityError, known_city, FOREIGN KEY (city) REFERENCES cities)" in error


def test_a_check_added_after_stage_is_explained(maria: MariaDBWorld) -> None:
    add = f"ALTER TABLE {maria.table().schema}orders ADD CONSTRAINT small CHECK (id < 100)"
    assert "a row violates a CHECK (error 4025, OperationalError, small, CHECK (`id` < 100))" in refused(maria, add)


def test_an_out_of_range_expression_is_explained(maria: MariaDBWorld) -> None:
    maria.table("id int NOT NULL, city varchar(50), far bigint AS (id * 9999999999999) STORED")
    assert "a number is out of range in an expression of a generated column, a CHECK or a trigger" in refused(maria)


def test_the_message_of_a_trigger_is_shown(maria: MariaDBWorld) -> None:
    maria.table()
    orders = f"{maria.schema}orders"
    maria.run(f"CREATE TRIGGER {maria.schema}picky {PICKY.format(orders=orders)}")
    assert "the trigger picky refuses a row: the shop's closed (error 1644, OperationalError)" in refused(maria)


def test_a_triggers_message_that_may_hold_a_value_is_not_shown(maria: MariaDBWorld) -> None:
    maria.table()
    orders = f"{maria.schema}orders"
    body = "BEGIN DECLARE said varchar(99) DEFAULT concat('no ', NEW.city); SIGNAL SQLSTATE '45000' "
    maria.run(
        f"CREATE TRIGGER {maria.schema}picky BEFORE INSERT ON {orders} FOR EACH ROW {body} SET MESSAGE_TEXT = said; END"
    )
    error = refused(maria)
    assert "a trigger refuses a row (error 1644, OperationalError, triggers of the table: picky). Its message" in error


def test_an_exhausted_auto_increment_column_is_explained(maria: MariaDBWorld) -> None:
    maria.table("nr tinyint AUTO_INCREMENT PRIMARY KEY, id int NOT NULL UNIQUE, city varchar(50)")
    maria.run(f"INSERT INTO {maria.schema}orders VALUES (127, 1, 'there')")
    error = refused(maria, mode="upsert", key=["id"])
    assert "the AUTO_INCREMENT column has no number left" in error
    assert maria.rows() == [(127, 1, "there")]


def test_a_problem_of_the_table_is_explained_with_advice(maria: MariaDBWorld) -> None:
    error = refused(maria.table(), f"ALTER TABLE {maria.schema}orders ADD day date NOT NULL")
    assert (
        "its column 'day' is NOT NULL and has no default, and the job has no such column. Select it, too. Noth" in error
    )
