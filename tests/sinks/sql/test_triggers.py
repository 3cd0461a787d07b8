"""SQLite's triggers that skip rows without an error (RAISE(IGNORE)), and triggers that write to other tables."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, StagedDataDamagedError
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.sql.sqlite_catalog import skips_conflicts, trigger_skips_rows
from tests.sinks.databases import rows_of, stage
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import Rows, staged

KEYED = "id int NOT NULL PRIMARY KEY, city text"
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}
PICKY = "CREATE TRIGGER picky BEFORE INSERT ON orders WHEN NEW.id = 20 BEGIN SELECT RAISE(IGNORE); END"


@pytest.mark.parametrize("mode", [{}, UPSERT, {"mode": "replace"}])
def test_rows_that_a_trigger_skips_fail_the_release(lite: SQLiteWorld, mode: dict[str, Any]) -> None:
    sink = lite.table(KEYED).new(**mode)
    lite.run(PICKY)
    first, second = staged(sink, 1), staged(sink, 2)
    assert sink.release([first], 1) == {"rows": 2}
    with pytest.raises(
        StagedDataDamagedError,
        match=r"2 rows were staged, and 1 reached the table. A trigger of table main.orders leaves",
    ):
        sink.release([second], 2)
    assert (lite.rows(), sink.last_released(), lite.staged()) == (rows_of(1), 1, [second["id"]])
    lite.run("DROP TRIGGER picky")
    assert sink.release([second], 2) == {"rows": 2}
    assert lite.rows() == rows_of(1, 2)


def test_a_trigger_that_skips_the_update_of_a_key_fails_the_release(lite: SQLiteWorld) -> None:
    sink = lite.table(KEYED).new(**UPSERT)
    lite.put((20, "of somebody else"))
    lite.run(PICKY)
    with pytest.raises(StagedDataDamagedError, match="1 reached the table"):
        sink.release([staged(sink, 2)], 1)
    assert lite.rows() == [(20, "of somebody else")]


@pytest.mark.parametrize("collation", ["BINARY", "NOCASE"])
def test_rows_lost_to_a_trigger_are_detected_in_a_keys_only_table(lite: SQLiteWorld, collation: str) -> None:
    lite.table(f"city text COLLATE {collation} NOT NULL PRIMARY KEY")
    columns = (("city", "string"),)
    sink = lite.bind(mode="upsert", key=["city"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    lite.run("CREATE TRIGGER picky BEFORE INSERT ON orders WHEN NEW.city = 'bad' BEGIN SELECT RAISE(IGNORE); END")
    assert sink.release([stage(sink, Rows([[("a",), ("a",), ("b",)]], columns), 1)], 1) == {"rows": 3}
    assert sink.release([stage(sink, Rows([[("a",), ("B",)]], columns), 2)], 2) == {"rows": 2}
    with pytest.raises(StagedDataDamagedError, match="3 rows were staged, and 1 reached the table"):
        sink.release([stage(sink, Rows([[("a",), ("bad",)], [("bad",)]], columns), 3)], 3)


def test_a_trigger_may_keep_the_newer_row(lite: SQLiteWorld) -> None:
    sink = lite.table(KEYED).new(**UPSERT)
    sink.release([stage(sink, Rows([[(1, "b"), (2, "b")]]), 1)], 1)
    lite.run("CREATE TRIGGER newer BEFORE UPDATE ON orders WHEN NEW.city < OLD.city BEGIN SELECT RAISE(IGNORE); END")
    assert sink.release([stage(sink, Rows([[(1, "a"), (2, "c")]]), 2)], 2) == {"rows": 2}
    assert lite.rows() == [(1, "b"), (2, "c")]


def test_a_mostly_passing_trigger_does_not_disturb_rows_with_one_key(lite: SQLiteWorld) -> None:
    sink = lite.table(KEYED).new(**UPSERT)
    lite.run(PICKY)
    lite.run("CREATE TABLE log (id int)")
    lite.run("CREATE TRIGGER logs AFTER INSERT ON orders BEGIN INSERT INTO log VALUES (NEW.id); END")
    [first, last] = rows_of(1)
    assert sink.release([stage(sink, Rows([[first, last, first], [last]]), 1)], 1) == {"rows": 4}
    assert lite.rows() == rows_of(1)


@pytest.mark.parametrize("how", ["IGNORE", "REPLACE"])
@pytest.mark.parametrize("mode", [{}, UPSERT, {"mode": "replace"}])
def test_a_triggers_own_conflict_clause_is_respected(lite: SQLiteWorld, mode: dict[str, Any], how: str) -> None:
    """The conflict clause of SQLite's outer statement wins: its OR ABORT would fail a trigger's INSERT OR IGNORE."""
    sink = lite.table(KEYED).new(**mode)
    lite.run("CREATE TABLE cities (city text PRIMARY KEY, id int)")
    lite.run("INSERT INTO cities VALUES ('city 10', 0)")
    lite.run(
        f"CREATE TRIGGER t AFTER INSERT ON orders BEGIN INSERT OR {how} INTO cities VALUES (NEW.city, NEW.id); END"
    )
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert lite.rows() == rows_of(1)
    assert lite.rows("cities") == [("city 10", 0 if how == "IGNORE" else 10), ("city 11", 11)]


KEEPING = {
    "keeps each row": "BEFORE DELETE ON orders BEGIN SELECT RAISE(IGNORE); END",
    "keeps one row": "BEFORE DELETE ON orders WHEN OLD.id = 8 BEGIN SELECT RAISE(IGNORE); END",
    "inserts rows again": "AFTER DELETE ON orders BEGIN INSERT INTO orders VALUES (OLD.id, OLD.city); END",
}


@pytest.mark.parametrize("how", KEEPING)
def test_old_rows_that_a_trigger_keeps_fail_a_replacing_release(lite: SQLiteWorld, how: str) -> None:
    sink, old = lite.table().new(mode="replace"), [(7, "old"), (8, "old")]
    lite.put(*old)
    lite.run(f"CREATE TRIGGER keeps {KEEPING[how]}")
    handle = staged(sink, 1)
    with pytest.raises(ReleaseRefusedError, match="still has rows after the release deleted all of them"):
        sink.release([handle], 1)
    assert (lite.rows(), lite.staged(), sink.last_released()) == (old, [handle["id"]], 0)
    lite.run("DROP TRIGGER keeps")
    assert sink.release([handle], 1) == {"rows": 2}
    assert lite.rows() == rows_of(1)


def test_a_trigger_that_allows_deletes_does_not_disturb_a_replace(lite: SQLiteWorld) -> None:
    sink = lite.table().table(name="log").new(mode="replace")
    lite.put((7, "old"))
    lite.run("CREATE TRIGGER logs AFTER DELETE ON orders BEGIN INSERT INTO log VALUES (OLD.id, OLD.city); END")
    sink.release([staged(sink, 1)], 1)
    assert (lite.rows(), lite.rows("log")) == (rows_of(1), [(7, "old")])


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("CREATE TABLE o (id int PRIMARY KEY on conflict Replace)", True),
        ("CREATE TABLE o (id int, UNIQUE (id) ON /* no */ CONFLICT\nIGNORE)", True),
        ("CREATE TABLE o (id int UNIQUE ON CONFLICT FAIL -- ON CONFLICT IGNORE\n)", False),
        ("CREATE TABLE o (id int PRIMARY KEY, \"ON CONFLICT IGNORE\" text DEFAULT 'ON CONFLICT REPLACE')", False),
    ],
)
def test_conflict_clauses_are_parsed_from_the_table_definition(table: str, expected: bool) -> None:
    assert skips_conflicts(table) is expected


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ("CREATE TRIGGER t INSERT ON o BEGIN SELECT raise ( ignore ); END", True),
        ("CREATE TRIGGER before BEFORE /* UPDATE */ INSERT ON o BEGIN SELECT RAISE(/* ' */IGNORE); END", True),
        ('CREATE TRIGGER "a DELETE ""b" -- UPDATE\nBEFORE INSERT ON [UPDATE] BEGIN SELECT RAISE(IGNORE); END', True),
        ("CREATE TRIGGER t BEFORE UPDATE OF [INSERT] ON o BEGIN INSERT INTO p SELECT RAISE(IGNORE); END", False),
        ("CREATE TRIGGER t BEFORE INSERT ON o BEGIN SELECT RAISE(ABORT, 'RAISE(IGNORE)'); END", False),
        ("CREATE TRIGGER t BEFORE INSERT ON o BEGIN SELECT 1; -- RAISE(IGNORE)\nEND", False),
    ],
)
def test_row_skipping_is_parsed_from_the_trigger_definition(trigger: str, expected: bool) -> None:
    assert trigger_skips_rows(trigger) is expected
